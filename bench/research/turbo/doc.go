// Package turbo decodes JPEG pixels with libjpeg-turbo, which it opens at run
// time: no C compiler is needed to build. It is what pipefs' own decoder is compared with.
//
// # Nouns
//
// The library is libturbojpeg, asked through its tj functions, which versions 2
// and 3 both have. A handle is one decompressor of it, used by one goroutine at
// a time.
package turbo
