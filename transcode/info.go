package transcode

import (
	"encoding/binary"
	"fmt"
)

// Format names the encoding of a file.
type Format uint8

// The formats that samples come in or views go out in. The numbers are stored;
// never reorder them.
const (
	Unknown Format = iota
	JPEG
	PNG
	BMP
	PNM // PBM, PGM and PPM, binary
	NPY
	TIFF
	WebP
	GIF
	L3
)

var formatNames = [...]string{"unknown", "JPEG", "PNG", "BMP", "PNM", "NPY", "TIFF", "WebP", "GIF", "L3"}

func (f Format) String() string {
	if int(f) < len(formatNames) {
		return formatNames[f]
	}
	return fmt.Sprintf("Format(%d)", uint8(f))
}

// Mode says what the channels of a pixel mean. The names are Pillow's.
type Mode uint8

// The modes. The numbers are stored; never reorder them.
const (
	ModeNone   Mode = iota
	ModeBit         // "1": black and white, one byte a pixel, 0 or 1
	ModeL           // "L": grey, 8 bits
	ModeLA          // "LA": grey and alpha
	ModeP           // "P": index into a palette
	ModeRGB         // "RGB"
	ModeRGBA        // "RGBA", not premultiplied
	ModeI16         // "I;16": grey, 16 bits
	ModeLA16        // grey and alpha, 16 bits a channel; Pillow has no name for it
	ModeRGB16       // RGB, 16 bits a channel; Pillow reads its high bytes
	ModeRGBA16      // RGBA, 16 bits a channel; likewise
)

var modes = [...]struct {
	name     string
	channels int
	depth    int
}{
	{"none", 0, 0}, {"1", 1, 8}, {"L", 1, 8}, {"LA", 2, 8}, {"P", 1, 8}, {"RGB", 3, 8}, {"RGBA", 4, 8},
	{"I;16", 1, 16}, {"LA;16", 2, 16}, {"RGB;16", 3, 16}, {"RGBA;16", 4, 16},
}

func (m Mode) String() string {
	if int(m) < len(modes) {
		return modes[m].name
	}
	return fmt.Sprintf("Mode(%d)", uint8(m))
}

// Channels is the number of values a pixel has.
func (m Mode) Channels() int { return modes[m].channels }

// Depth is the number of bits a decoded value takes, 8 or 16.
func (m Mode) Depth() int { return modes[m].depth }

// Alpha reports whether the last channel is opacity.
func (m Mode) Alpha() bool {
	return m == ModeLA || m == ModeRGBA || m == ModeLA16 || m == ModeRGBA16
}

// Info is what a sample's header tells: enough to plan a pipeline and, for raw
// targets, to know the exact size of its result, without decoding anything.
type Info struct {
	Format Format
	// Mode of the decoded picture. A JPEG always decodes to RGB.
	Mode Mode
	// Width and Height in pixels, as stored: orientation is not applied.
	Width, Height int
	// Orientation as in EXIF, 1 to 8; 0 where the file does not say.
	Orientation uint8
	// Transparent: a palette with transparency, or a colour that counts as
	// transparent. Formats without either cannot hold the picture.
	Transparent bool
	// Animated: more than one frame or page.
	Animated bool
	// Scannable: a JPEG that can be stored scan by scan.
	Scannable bool
	// Lossy: the file is an approximation that takes far less than its pixels would
	// in any lossless format. A JPEG always is, and does not say so here.
	Lossy bool
}

// Verify returns an error unless a picture is of the size and the mode that i says.
func (i Info) Verify(width, height int, mode Mode) error {
	if width != i.Width || height != i.Height || mode != i.Mode {
		return Errorf(ErrInternal, "a picture of mode %v, %d×%d, where the header says %v, %d×%d",
			mode, width, height, i.Mode, i.Width, i.Height)
	}
	return nil
}

const infoSize = 12

// AppendInfo appends the stored form of i, infoSize bytes, little-endian:
// format, mode, orientation, flags, width, height.
func AppendInfo(b []byte, i Info) []byte {
	var flags byte
	for bit, set := range []bool{i.Transparent, i.Animated, i.Scannable, i.Lossy} {
		if set {
			flags |= 1 << bit
		}
	}
	b = append(b, byte(i.Format), byte(i.Mode), i.Orientation, flags)
	b = binary.LittleEndian.AppendUint32(b, uint32(i.Width))
	return binary.LittleEndian.AppendUint32(b, uint32(i.Height))
}

// ReadInfo reads what AppendInfo wrote and returns the rest of b.
func ReadInfo(b []byte) (Info, []byte, error) {
	if len(b) < infoSize {
		return Info{}, nil, Errorf(ErrTruncated, "info of %d bytes, want %d", len(b), infoSize)
	}
	i := Info{
		Format: Format(b[0]), Mode: Mode(b[1]), Orientation: b[2],
		Transparent: b[3]&1 != 0, Animated: b[3]&2 != 0, Scannable: b[3]&4 != 0, Lossy: b[3]&8 != 0,
		Width:  int(binary.LittleEndian.Uint32(b[4:])),
		Height: int(binary.LittleEndian.Uint32(b[8:])),
	}
	if int(i.Format) >= len(formatNames) || int(i.Mode) >= len(modes) || b[3] > 15 || i.Orientation > 8 {
		return Info{}, nil, Errorf(ErrBad, "info % x", b[:infoSize])
	}
	return i, b[infoSize:], nil
}
