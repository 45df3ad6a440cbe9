// Package layout says where in memory the samples of a picture lie, so that every
// decoder writes them where they are wanted and nothing has to be moved again.
package layout

import "fmt"

// Target is memory for the samples of a picture of a known size. Sample c of the
// pixel at x, y begins at
//
//	Base + y*Row + x*Pixel + c*Channel
//
// All are in bytes and may be negative: the rows of a BMP go upwards, its
// channels backwards. Samples of 16 bits are little-endian.
type Target struct {
	Pix                       []byte
	Base, Row, Pixel, Channel int
}

// Interleaved is the layout of transcode.Pixels: row by row without gaps, pixel by
// pixel. size is the number of bytes a sample takes.
func Interleaved(pix []byte, width, channels, size int) Target {
	return Target{Pix: pix, Row: width * channels * size, Pixel: channels * size, Channel: size}
}

// Planar is channel by channel: CHW.
func Planar(pix []byte, width, height, size int) Target {
	return Target{Pix: pix, Row: width * size, Pixel: size, Channel: width * height * size}
}

// Check returns an error unless all samples of a picture lie within Pix.
func (t *Target) Check(width, height, channels, size int) error {
	low, high := t.Base, t.Base+size
	for _, d := range [][2]int{{t.Row, height}, {t.Pixel, width}, {t.Channel, channels}} {
		if span := d[0] * (d[1] - 1); span < 0 {
			low += span
		} else {
			high += span
		}
	}
	if width < 1 || height < 1 || channels < 1 || low < 0 || high > len(t.Pix) {
		return fmt.Errorf("a picture of %d×%d×%d samples of %d bytes takes bytes %d to %d of %d", width, height, channels, size, low, high, len(t.Pix))
	}
	return nil
}

// From is the target whose first pixel is the one at x, y.
func (t *Target) From(x, y int) Target {
	from := *t
	from.Base = t.At(x, y, 0)
	return from
}

// At is the offset of a sample.
func (t *Target) At(x, y, c int) int { return t.Base + y*t.Row + x*t.Pixel + c*t.Channel }
