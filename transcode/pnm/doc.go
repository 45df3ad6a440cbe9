// Package pnm reads and writes the portable any-map: PBM, PGM and PPM.
//
// # Nouns
//
// A file is a magic number, P1 to P6, then width, height and, except for black
// and white, the maxval: the value that means full intensity. Tokens stand
// between white space, comments run from # to the end of the line. Rows follow
// without padding, top-down; 16-bit values are big-endian. P1 to P3, the same in
// decimal digits, are unsupported.
//
// # What is read, and as what
//
// Pixels come out as Pillow reads them: a maxval other than 255 and 65535 is
// stretched to the full range, in 16 bits for grey. The one difference: colour
// of maxval 65535 keeps its 16 bits, of which Pillow keeps 8.
package pnm
