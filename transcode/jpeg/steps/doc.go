// Package steps makes of package jpeg what views are made of: the decoder of
// JPEG samples, and the steps that only JPEG files have.
//
// # Nouns
//
// The step `scan` cuts a file between its progressive scans. The level in its
// argument, 1 to 10, says how much of the picture is wanted; each level is a
// number of scans, and level 10 is all of them, in grey files too, which have
// fewer scans. Cuts are the levels that can be told apart; any other level shows
// the nearest one below it.
//
// The step `baseline` writes the same coefficients as a sequential file. The
// steps `half`, `quarter` and `eighth` decode at a fraction of the size.
//
// # What comes out
//
// Pillow's convert('RGB'), bit for bit, of every file that Pillow reads: slow
// integer DCT, fancy upsampling and block smoothing, as are libjpeg's defaults;
// grey becomes three equal channels; CMYK counts as inverted, as Adobe writes
// it. A file without its end is ErrTruncated, as in Pillow. Damage in the middle
// of a picture, which libjpeg only warns of and Pillow does not mention, gives the
// pixels of libjpeg. Such a file has no scans: `scan` does not apply to it.
// Arithmetic coding is ErrUnsupported.
//
// A region is these pixels, cut. What is missing or broken is refused as it is for the whole
// picture, with one exception: see [jpeg.DecodeRegion].
package steps
