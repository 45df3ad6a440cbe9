// Package raster holds the steps that work on pixels: geometry (`resize`, `crop`,
// `upright`), values (`grey`, `center`, `float32`), layout (`chw`), the lossy encoder
// `jpeg`, and arrays (`npy`).
//
// # Nouns
//
// A picture has integer values, a tensor float32 values, pixel by pixel; planes
// stand channel by channel. A mask holds labels: its pixels may move, by nearest
// neighbour, but never mix.
//
// A bitmap is 8-bit pixels, grey or RGB, whose values change and whose pixels move in place, as
// torchvision's transforms do on Pillow's pictures: bit for bit, but for blurring, which torchvision
// computes in floats:
//
//   - A table has a byte for each value of a channel. Whatever changes a value by itself is a
//     table; it is made once a picture, by the float32 operations of Pillow in their order.
//   - A blend is a + factor·(b-a), cut off to a byte, for two pictures a and b, as Pillow's
//     Image.blend.
//   - A warp takes the place of each pixel through an affine matrix, and blends the four
//     pixels around it. It is computed in integers, and again in doubles, as Pillow does, where
//     the integers lie so close to the next value that their error may count.
//
// # Whose results
//
// Every step gives what the usual Python program gives, bit for bit, so that a
// view can take its place: `resize` and `crop` what torchvision.transforms Resize
// and CenterCrop make of a PIL image, `grey` Pillow's convert('L'), `upright`
// PIL.ImageOps.exif_transpose, `float32` NumPy's astype.
//
// # NumPy arrays
//
// `npy` writes NumPy's array format, version 1.0. A file is a magic number, a version, the length
// of the header as 16 bits, the header (a Python dictionary of dtype, order and shape), padded with
// blanks so that the values begin at a multiple of 64 bytes, and the values in C order.
//
// They are what np.asarray gives of the picture that Pillow opens: (height, width,
// channels), or (height, width) where there is one channel; '|b1' for black and
// white, '|u1', '<u2' or '<f4' for the rest. After `chw` it is (channels,
// height, width), also for one channel. np.load(…, mmap_mode='r') maps it.
package raster
