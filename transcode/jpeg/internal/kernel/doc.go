// Package kernel is the inner loops of JPEG decoding: from the bits of a sequential scan to
// coefficients, from those to samples, and from samples to pixels. It computes what libjpeg-turbo computes by
// default (slow integer transform, fancy upsampling), bit for bit, also for input
// that no encoder makes: wherever sums overflow or saturate, the result is that
// of libjpeg-turbo's SIMD code on x86-64, which differs from its C code there.
//
// The nouns:
//
//   - A symbol says how many coefficients before the next one are zero, and how many bits
//     follow that are its value.
//   - A coefficient is a quantised value of the 8×8 transform. Dequantised, it is
//     multiplied by its entry of the quantisation table; products keep their low
//     16 bits. Natural order is row by row, zigzag order is that of the file.
//   - A sample is a byte of one component; a pixel has a sample of each.
//   - A row is a slice of samples, or of interleaved pixels. Rows that go into
//     one call never overlap the one that comes out.
//   - Fancy upsampling doubles a row with a triangle filter, 3/4 of the nearer
//     sample and 1/4 of the farther one. Which way a tie is rounded alternates.
//   - A kernel is one function of this package. Each has a portable form; on
//     amd64 all but IDCT1 have one in assembly too, which gives the same bytes. transcode/internal/gen/jpegkernel
//     generates those.
//
// Kernels allocate nothing and write nothing but the samples they are asked for.
// They rely on the lengths that their comments state, and panic otherwise.
package kernel
