// Package turbo decodes JPEG pixels with libjpeg-turbo, which it opens at run
// time: no C compiler is needed to build, and nothing but the shared library to
// run.
//
// # Nouns
//
// The library is libturbojpeg, asked through its tj functions, which versions 2
// and 3 both have. A handle is one decompressor of it, used by one goroutine at
// a time.
//
// # What comes out
//
// Pillow's convert('RGB'), bit for bit, of every file that Pillow reads: slow
// integer DCT, fancy upsampling and block smoothing, as are libjpeg's defaults;
// grey becomes three equal channels; CMYK counts as inverted, as Adobe writes
// it. Damage in the picture that libjpeg only warns of is accepted, since Pillow
// says nothing about it; a file without its end is ErrTruncated, as in Pillow.
package turbo
