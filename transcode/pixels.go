package transcode

import "image"

// Type is the type of one value of a pixel.
type Type uint8

// Uint8 and Uint16 follow from the mode; Float32 is what the steps `center` and
// `float32` make.
const (
	Uint8 Type = iota
	Uint16
	Float32
)

// Size is the number of bytes a value takes.
func (t Type) Size() int { return 1 << t }

// Pixels is a decoded picture.
type Pixels struct {
	Width, Height int
	Mode          Mode
	Type          Type
	// Planar: channel by channel (CHW), not pixel by pixel (HWC).
	Planar bool
	// Pix holds the values without any padding, rows top-down, 16-bit and
	// float32 values little-endian. ModeBit takes one byte a pixel, 0 or 1.
	Pix []byte
	// Palette holds the RGBA colours of ModeP, four bytes each, not
	// premultiplied, at most 256 of them.
	Palette []byte
	// Meta is what travels with the picture.
	Meta Metadata
}

// Metadata is carried from a source into derived JPEG and PNG files.
type Metadata struct {
	EXIF []byte // a TIFF structure, without the "Exif\0\0" in front
	ICC  []byte // an ICC profile
	// Orientation as in EXIF, 1 to 8; 0 where the file does not say.
	Orientation uint8
}

// RowBytes is the length of one row of interleaved pixels.
func (p *Pixels) RowBytes() int { return p.Width * p.Mode.Channels() * p.Type.Size() }

// Len is the number of bytes that Pix has to have.
func (p *Pixels) Len() int { return p.Height * p.RowBytes() }

// Bounds is the rectangle of all pixels.
func (p *Pixels) Bounds() image.Rectangle { return image.Rect(0, 0, p.Width, p.Height) }

// Cut returns the pixels of a rectangle of p, and all else that p has. Where that is all
// of p, it is p itself.
func (p *Pixels) Cut(r image.Rectangle) *Pixels {
	if r == p.Bounds() {
		return p
	}
	out := *p
	out.Width, out.Height = r.Dx(), r.Dy()
	out.Pix = make([]byte, out.Len())
	Place(p, r, out.Pix, LayoutOf(&out))
	return &out
}
