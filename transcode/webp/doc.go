// Package webp reads WebP files.
//
// # Nouns
//
// A file is a RIFF container of chunks. A plain file has one: VP8, lossy, or
// VP8L, lossless. An extended file begins with VP8X, which tells the size of the
// canvas and what else there is: ALPH (the alpha of a lossy picture), ICCP, EXIF,
// ANIM and a chunk ANMF for each frame.
//
// # What is read, and as what
//
// Still pictures, as Pillow reads them: RGBA where the file says that there is
// alpha, otherwise RGB. The planes of a lossy picture come from package
// golang.org/x/image/vp8, whose result the format defines to the bit. The upsampling of
// colours is that of libwebp.
// Animations are unsupported.
package webp
