// Package tiff reads TIFF files.
//
// # Nouns
//
// A file is a header and a chain of directories, one a page. A directory is a
// list of entries in the order of their tags; each has a type, a count, and its
// values or their offset. The pixels stand in strips or tiles.
//
// # What is read, and as what
//
// Pixels come out as Pillow reads them, of the first page, for what both Pillow
// and golang.org/x/image/tiff know: black and white, grey of 8 and 16 bits,
// palettes of 8 bits, RGB of 8 and 16 bits, RGBA with alpha that is not
// premultiplied; uncompressed, PackBits, LZW, deflate. All else, and an
// orientation, which Pillow applies to TIFF files alone, is unsupported.
package tiff
