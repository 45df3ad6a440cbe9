// Package jpeg takes JPEG files apart into quantised coefficients and puts them
// together again as progressive files, without decoding a single pixel. Its
// output equals that of
//
//	jpegtran -copy all -progressive
//
// of libjpeg-turbo byte for byte, so nothing of the picture or of its metadata
// is lost. All functions are pure: bytes in, bytes out.
//
// It also makes pixels, of whole files, of their first scans, and of a half, a
// quarter or an eighth of their size: those of djpeg, bit for bit. That holds for
// damaged files, too. See DecodePixels.
//
// The nouns, after ITU-T T.81 (ISO/IEC 10918-1), to which "T.81" refers all
// over this package:
//
//   - A marker is the byte FF followed by a code. A segment is a marker with a
//     length and a payload: tables, comments (COM), application data (APPn:
//     JFIF, EXIF, ICC profile, Adobe).
//   - A component is one colour channel, coded in blocks at a resolution of its
//     own, given by its sampling factors.
//   - A coefficient is one quantised value of the 8×8 transform of a block. The
//     DC coefficient is the first one, the other 63 are AC coefficients. In this
//     package they are always in zigzag order, as in the file.
//   - A block is the 64 coefficients of 8×8 samples of one component.
//   - A sample is a value of one component after the inverse transform, 0 to 255.
//     A plane is the samples of a component; where they are fewer than the
//     picture has pixels, they are upsampled. A pixel has a sample of each plane,
//     converted to RGB.
//   - A region is a rectangle of pixels that are wanted, and no others. Entropy-coded data
//     is decoded up to the last block that they come from; transform, upsampling and
//     conversion are done for these blocks alone.
//   - Smoothing estimates the coefficients that missing scans of a progressive file
//     would have, from the DC coefficients around a block.
//   - An MCU (minimum coded unit) is the group of blocks that an interleaved scan
//     codes together: for each component, as many blocks as its sampling factors
//     say. Pictures are padded with dummy blocks to whole MCUs.
//   - A band is a range of coefficients, Ss to Se, and within it a range of bits:
//     Al is the lowest bit that a scan delivers, Ah the lowest one delivered
//     before, 0 where none was.
//   - A scan is one pass over one component or several that delivers one band; in
//     the file it is an SOS segment and the entropy-coded data after it. Huffman
//     tables between two scans belong to the later one.
//   - A script is the list of scans of a progressive file.
//   - A restart interval is a number of MCUs that can be decoded on its own; the
//     intervals of a scan are separated by RST markers.
//   - A fidelity level, 1 to 10, says how much of the picture is wanted. Each
//     level is a number of scans; level 10 is always all of them. See Scans.
//
// # Steps
//
// [Decoder] decodes JPEG samples, and some steps take JPEG files only.
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
// # What the decoder gives
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
// picture, with one exception: see [DecodeRegion].
//
// # Errors
//
// Every error is an *Error and wraps one of transcode.ErrBad, ErrUnsupported,
// ErrTruncated and ErrInternal.
package jpeg
