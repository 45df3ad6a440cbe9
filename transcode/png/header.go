package png

import (
	"encoding/binary"

	"github.com/pipefs/pipefs/transcode"
)

const signature = "\x89PNG\r\n\x1a\n"

// Colour types of IHDR.
const (
	colourGrey      = 0
	colourRGB       = 2
	colourPalette   = 3
	colourGreyAlpha = 4
	colourRGBA      = 6
)

// header is what precedes the pixels.
type header struct {
	width, height int
	depth         int // bits of a value
	colour        byte
	interlaced    bool
	mode          transcode.Mode
	palette       []byte // RGBA
	transparent   bool
	frames        uint32 // of an animation
	first         bool   // the pixels are the first frame
	exif          []byte
	iccp          []byte // the chunk, still compressed
	ended         bool   // the file has IEND, behind pixels whose chunks have the right CRC
}

// values is the number of values of a pixel in the file.
func (h *header) values() int {
	switch h.colour {
	case colourRGB:
		return 3
	case colourGreyAlpha:
		return 2
	case colourRGBA:
		return 4
	}
	return 1
}

// rowBytes is the length of a row of width pixels, without its filter byte.
func (h *header) rowBytes(width int) int {
	return (width*h.values()*h.depth + 7) / 8
}

func (h *header) ihdr(b []byte) error {
	if len(b) != 13 {
		return transcode.Errorf(transcode.ErrBad, "PNG: IHDR of %d bytes", len(b))
	}
	width, height := binary.BigEndian.Uint32(b), binary.BigEndian.Uint32(b[4:])
	if width == 0 || height == 0 || width > 1<<31-1 || height > 1<<31-1 {
		return transcode.Errorf(transcode.ErrBad, "PNG of %d by %d pixels", width, height)
	}
	if b[10] != 0 || b[11] != 0 || b[12] > 1 {
		return transcode.Errorf(transcode.ErrBad, "PNG: compression %d, filter method %d, interlace method %d", b[10], b[11], b[12])
	}
	h.width, h.height = int(width), int(height)
	h.depth, h.colour, h.interlaced = int(b[8]), b[9], b[12] == 1
	h.mode = modeOf(h.depth, h.colour)
	if h.mode == transcode.ModeNone {
		return transcode.Errorf(transcode.ErrBad, "PNG: %d bits of colour type %d", h.depth, h.colour)
	}
	return nil
}

// modeOf is the mode of the decoded picture; ModeNone for combinations that PNG
// does not have.
func modeOf(depth int, colour byte) transcode.Mode {
	eight, sixteen := transcode.ModeNone, transcode.ModeNone
	switch colour {
	case colourGrey:
		switch depth {
		case 1:
			return transcode.ModeBit
		case 2, 4:
			return transcode.ModeL
		}
		eight, sixteen = transcode.ModeL, transcode.ModeI16
	case colourRGB:
		eight, sixteen = transcode.ModeRGB, transcode.ModeRGB16
	case colourPalette:
		switch depth {
		case 1, 2, 4, 8:
			return transcode.ModeP
		}
	case colourGreyAlpha:
		eight, sixteen = transcode.ModeLA, transcode.ModeLA16
	case colourRGBA:
		eight, sixteen = transcode.ModeRGBA, transcode.ModeRGBA16
	}
	switch depth {
	case 8:
		return eight
	case 16:
		return sixteen
	}
	return transcode.ModeNone
}

func (h *header) plte(b []byte) error {
	if h.colour != colourPalette {
		return nil // a suggestion for displays of few colours
	}
	if len(b)%3 != 0 || len(b) == 0 || len(b) > 3<<h.depth {
		return transcode.Errorf(transcode.ErrBad, "PNG: palette of %d bytes at %d bits", len(b), h.depth)
	}
	h.palette = make([]byte, 0, len(b)/3*4)
	for ; len(b) > 0; b = b[3:] {
		h.palette = append(h.palette, b[0], b[1], b[2], 255)
	}
	return nil
}

func (h *header) trns(b []byte) {
	if h.colour != colourPalette {
		// A colour key. With an alpha channel it is forbidden and ignored.
		h.transparent = !h.mode.Alpha()
		return
	}
	for i, alpha := range b[:min(len(b), len(h.palette)/4)] {
		h.palette[4*i+3] = alpha
		h.transparent = h.transparent || alpha != 255
	}
}

// animation takes note of a chunk that stands before the pixels: acTL with the
// number of frames, or fcTL, which says that the pixels are the first of them
// and not a picture beside them.
func (h *header) animation(kind string, b []byte) {
	if kind == "fcTL" {
		h.first = true
	} else if len(b) >= 4 {
		h.frames = binary.BigEndian.Uint32(b)
	}
}

// metadata takes note of a chunk that does not change the pixels.
func (h *header) metadata(kind string, b []byte) {
	switch kind {
	case "eXIf":
		// Some writers put JPEG's introduction in front.
		if len(b) > 6 && string(b[:6]) == "Exif\x00\x00" {
			b = b[6:]
		}
		h.exif = b
	case "iCCP":
		h.iccp = b
	}
}

// info is what the header says of the sample.
func (h *header) info() transcode.Info {
	return transcode.Info{
		Format: transcode.PNG, Mode: h.mode, Width: h.width, Height: h.height,
		Orientation: transcode.EXIFOrientation(h.exif),
		Transparent: h.transparent, Animated: h.frames > 1 || h.frames == 1 && !h.first,
	}
}
