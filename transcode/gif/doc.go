// Package gif reads the first frame of GIF files.
//
// # Nouns
//
// A file is a header with the size of the screen, perhaps a global palette, and
// blocks: extensions, of which the graphic control tells the transparent index,
// and frames. A frame is a rectangle of the screen, perhaps with a palette of its
// own; its pixels are LZW codes in sub-blocks of up to 255 bytes.
//
// # What is read, and as what
//
// Pixels come out as Pillow reads them: the whole screen as indices into the
// first frame's palette, or grey where that palette is a grey ramp. What the
// frame does not cover has the transparent index, or 0. A frame that reaches over
// the edge of the screen and one without any palette are unsupported.
package gif
