// Package v2 is version 2 of the L3 format at the level of patches: rectangles of
// a picture that are coded on their own. docs/l3.md specifies the format; package
// l3 puts patches into files.
//
// # Nouns
//
// The sides of a patch are its width and height. Rows are carried by 32 lanes, row
// y by lane y mod 32; 32 rows are a band. A column is the 32 samples, one a lane,
// of one step. Lane r is r samples behind lane 0, so that the samples to the left, above and
// above left of a sample, from which it is predicted, were decoded in earlier steps.
// A block is 8 steps of 8 lanes, 64 samples. Its code says how its residuals are
// stored: not at all, raw with so many bits, or as Rice codes, whose remainders
// are raw and whose quotients are planes of bits in streams of their own.
//
// The decoder works on a unit at a time, 16 steps: it unpacks the blocks to columns,
// makes samples of the residuals, and writes these to rows of the band. A band that is
// complete is copied to the target.
//
// A residual is the difference of a sample and its prediction; in a block it is zigzag-coded:
// 0, -1, 1, -2 … become 0, 1, 2, 3 ….
package v2
