// Package bmp reads and writes Windows bitmaps.
//
// # Nouns
//
// A file is a file header of 14 bytes, an info header whose length tells its
// version, colour masks or a palette where the depth wants one, and the rows,
// each padded to a multiple of four bytes. Rows stand bottom-up, or top-down
// where the height is negative. Pixels of 24 and 32 bits are blue, green, red.
//
// # What is read, and as what
//
// Pixels come out as Pillow reads them. A palette that says nothing (a grey
// ramp; black and white at one bit) is dropped, and the picture is grey or
// black and white. 32 bits without an alpha mask are RGB. Run-length coding, 16
// bits a pixel, other masks and OS/2 variants are unsupported.
//
// # What is written
//
// Bottom-up, the form that every reader knows, in the version that says enough:
// 40 bytes of info header, or 108 where there is alpha. Palettes always have 256
// entries, since Pillow takes the first two of a shorter one for the whole.
package bmp
