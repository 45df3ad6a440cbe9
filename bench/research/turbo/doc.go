// Package turbo decodes JPEG pixels with libjpeg-turbo, which it opens at run
// time: no C compiler is needed to build. Without the library decoding is slower, and nothing
// else changes. This package knows nothing of JPEG; package steps decides when to use it.
//
// # Nouns
//
// The library is libturbojpeg, asked through its tj functions, which versions 2
// and 3 both have. A handle is one decompressor of it, used by one goroutine at
// a time.
package turbo
