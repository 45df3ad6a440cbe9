// Package transcode turns the files of an image dataset into the formats that
// views present: bytes and pixels in, bytes and pixels out. It touches no files
// and keeps nothing between calls.
//
// # Nouns
//
// A [Format] is the encoding of a file, a [Mode] the meaning of its pixels'
// channels. [Info] is what the header of a sample tells.
//
// A [Step] is one transformation with its argument attached, such as
// `resize256`; its [Kind] is what it is without the argument. A [Pipeline] is a
// sequence of steps, and its canonical spec, `resize256-bmp`, is the name of the
// view that presents its results. Between steps flows a [Payload]: encoded bytes
// or [Pixels]. `decode` is implied where a step needs pixels.
//
// A region is a rectangle of a picture's pixels. Where the first step on pixels takes no
// more than one, the plan asks the [RegionDecoder] for these pixels alone.
//
// Not every step fits every sample: a mask must not be blended, a BMP cannot
// hold 16 bits. A [Plan] is a pipeline fitted to one sample. It knows the key of
// its result, often the exact size, and how to make it.
//
// A [Registry] holds the formats and kinds of steps; package codecs builds the
// usual one. Each codec lives in a package of its own below this one.
//
// # Rules
//
// A step represents a sample exactly or does not apply to it; a sample to which
// the last step does not apply appears unchanged. Steps that lose something
// (`jpeg90`) or move pixels (`resize256`) leave alone what may be a mask, unless
// [Roles] say otherwise. A sample that they call a mask gets the size of its picture in
// every view, by nearest neighbour.
//
// Every error is of one of four kinds: [ErrBad], [ErrUnsupported],
// [ErrTruncated], [ErrInternal].
package transcode
