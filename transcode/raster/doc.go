// Package raster holds the steps that work on pixels: geometry (`resize`, `crop`,
// `upright`), values (`grey`, `center`, `float32`), layout (`chw`), and the lossy
// encoder `jpeg`.
//
// # Nouns
//
// A picture has integer values, a tensor float32 values, pixel by pixel; planes
// stand channel by channel. A mask holds labels: its pixels may move, by nearest
// neighbour, but never mix.
//
// # Whose results
//
// Every step gives what the usual Python program gives, bit for bit, so that a
// view can take its place: `resize` and `crop` what torchvision.transforms Resize
// and CenterCrop make of a PIL image, `grey` Pillow's convert('L'), `upright`
// PIL.ImageOps.exif_transpose, `float32` NumPy's astype.
package raster
