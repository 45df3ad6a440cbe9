package v1

import (
	"encoding/binary"

	"github.com/pipefs/pipefs/transcode"
)

const (
	magic         = "LLL."
	magicExtended = "LLL+"

	// HeaderLen is the number of bytes of a file from which Parse tells the
	// dimensions, whichever form it has.
	HeaderLen = 14

	// DefaultPatch is the authors' choice of a patch's side.
	DefaultPatch = 64
	maxPatch     = 255
)

// Header is what a file says before its size table.
type Header struct {
	Width, Height int
	// Channels is 3, or 1 for grey.
	Channels int
	// Patch is the number of samples on each side of a patch, 1 to 255.
	Patch int
	// Extended files are ours: the authors' decoder does not read them.
	Extended bool
}

// IsL3 says whether a file that starts with these bytes is one of version 1.
func IsL3(prefix []byte) bool {
	return len(prefix) >= len(magic) && (string(prefix[:4]) == magic || string(prefix[:4]) == magicExtended)
}

// Parse reads the header. src may be a prefix of the file; HeaderLen bytes are always
// enough.
func Parse(src []byte) (Header, error) {
	var h Header
	if len(src) >= len(magic) && !IsL3(src) {
		return h, transcode.Errorf(transcode.ErrBad, "no L3 file of version 1: starts with % x", src[:4])
	}
	h.Extended = len(src) >= len(magic) && src[3] == magicExtended[3]
	if len(src) < h.len() {
		return h, transcode.Errorf(transcode.ErrTruncated, "L3 file of %d bytes, its header takes %d", len(src), h.len())
	}
	// int32 in the format: the sign is checked before it matters how wide int is.
	width, height := int32(binary.LittleEndian.Uint32(src[4:])), int32(binary.LittleEndian.Uint32(src[8:]))
	h.Width, h.Height, h.Patch, h.Channels = int(width), int(height), int(src[12]), 3
	if h.Extended {
		h.Channels = int(src[13])
	}
	switch {
	case h.Width < 1 || h.Height < 1:
		return h, transcode.Errorf(transcode.ErrBad, "L3 picture of %d by %d pixels", width, height)
	case h.Patch == 0:
		return h, transcode.Errorf(transcode.ErrBad, "L3 patches of 0 by 0 samples")
	case h.Channels != 1 && h.Channels != 3:
		return h, transcode.Errorf(transcode.ErrBad, "L3 picture of %d channels", h.Channels)
	case !h.Extended && (h.Width%h.Patch != 0 || h.Height%h.Patch != 0):
		return h, transcode.Errorf(transcode.ErrUnsupported,
			"L3 picture of %d by %d pixels in patches of %d: rows and columns beyond the last whole patch are not in the file", h.Width, h.Height, h.Patch)
	}
	return h, nil
}

// len is the number of bytes before the size table.
func (h *Header) len() int {
	if h.Extended {
		return HeaderLen
	}
	return HeaderLen - 1
}

// columns and rows are the numbers of patches from edge to edge. They are written
// so that nothing overflows where int has 32 bits.
func (h *Header) columns() int { return (h.Width-1)/h.Patch + 1 }
func (h *Header) rows() int    { return (h.Height-1)/h.Patch + 1 }

// append writes the header.
func (h *Header) append(b []byte) []byte {
	if h.Extended {
		b = append(b, magicExtended...)
	} else {
		b = append(b, magic...)
	}
	b = binary.LittleEndian.AppendUint32(b, uint32(h.Width))
	b = binary.LittleEndian.AppendUint32(b, uint32(h.Height))
	b = append(b, byte(h.Patch))
	if h.Extended {
		b = append(b, byte(h.Channels))
	}
	return b
}
