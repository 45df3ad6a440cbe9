// Package resample scales 8-bit pictures as Pillow's resize does, bit for bit, with its
// filters BILINEAR and BICUBIC: a box is cut out, scaled, and mirrored, from memory into
// memory.
//
// The nouns:
//
//   - A box is a rectangle of a picture. It is scaled as if it were cut out first: pixels
//     beside it have no influence.
//   - A tap is a source position that counts for a position of the result. Its weight is
//     fixed-point, with precision bits after the point. Filters are widened where a picture
//     becomes smaller, so that each of its pixels counts.
//   - Weights are all taps of one direction: of so many source positions and so many
//     results. They are computed once and remembered.
//   - A pass scales one direction. The horizontal pass comes first; it reads only the rows of
//     the box, and mirrors. What it makes is rounded to bytes, as in Pillow, and lies in
//     scratch memory that is used again.
//   - A kernel makes a few rows of a pass. Each has a portable form; there are others for
//     AVX2, which transcode/internal/gen/resample generates, and for NEON. All of them give
//     the same bytes.
//
// # Sums
//
// Pillow adds up products of a byte and a weight in 32 bits. What a sum is modulo 2³² does
// not depend on the order of the additions, nor on how a weight w is divided: the kernels
// in assembly take it as low + high·2¹⁶, with low a signed 16-bit number, and add the products
// with each part by themselves. The products with low are added in 32 bits. Of those with
// high the lower 16 bits are enough, since they count 2¹⁶-fold. AVX2's VPMADDUBSW, which adds
// two of the latter, saturates: it is exact where the magnitudes of two such numbers are at
// most 128 together (255·128 < 2¹⁵). Weights that do not meet that are left to the portable
// form; no filter here has any.
package resample
