// Package v1 reads and writes version 1 of L3, the format of "L3:
// Accelerator-Friendly Lossless Image Format for High-Resolution, High-Throughput
// DNN Training" (ECCV 2022): 8-bit RGB, and grey by an extension.
//
// The nouns:
//
//   - A channel is one of the colours of a picture, as a plane of samples.
//   - A patch is a square of samples of one channel, [Header.Patch] on each side. It is
//     decoded without looking at any other patch.
//   - A row is that of a patch: 4 bits of width, 8 bits of base, and a delta of that
//     many bits for each sample; least significant bits first, padded to a byte.
//   - A residual is base plus delta, modulo 256: the difference of a sample and its
//     prediction. The prediction is one of the three nearest samples of the row
//     above, which is all zeros for the first row.
//   - The size table holds the number of bytes of each patch.
//   - A plain file, `LLL.`, is one that the authors' decoder reads: RGB, with both
//     sides multiples of the patch's. An extended file, `LLL+`, is ours: its header has
//     one byte more, the number of channels, 1 or 3, and the patches at the right and
//     lower edges are as wide and as high as what is left of the picture.
//   - A plane, in this package, is the memory that patches are decoded into and encoded
//     from: rows of [stride] bytes with zeros around them, which stand for the samples
//     that a prediction does not find.
//
// # What is read
//
// Everything that the authors' decoder reads, with two exceptions. A plain file
// whose sides are no multiples of the patch's does not hold all of the picture, and is
// refused. So is a patch whose rows do not add up to the size in the table; the authors' decoder goes
// on with the bytes that follow. Bytes after the last patch are ignored, as by theirs.
package v1
