// Package png reads and writes Portable Network Graphics.
//
// # Nouns
//
// A file is a signature and chunks: a length, a type of four letters, data, and
// a CRC. IHDR comes first and tells size, depth and colour type; PLTE is the
// palette, tRNS its transparency or a colour that counts as transparent (a
// colour key), eXIf and iCCP are metadata, acTL announces an animation. The IDAT
// chunks together are one zlib stream of rows, each with the filter that it went
// through in front. An interlaced picture is seven smaller ones, the passes.
//
// # What is read, and as what
//
// Pixels come out as np.asarray shows them when Pillow has opened the file: grey
// of 2 and 4 bits is stretched to 8, grey of 1 bit is black and white, palettes
// are kept. 16 bits a channel stay 16, where Pillow keeps only those of grey. A
// colour key is reported as transparency and not applied.
//
// # What is written
//
// The mode as it is, not interlaced, with the filter that makes the smallest sum
// of differences in each row, and with eXIf and iCCP of the source.
package png
