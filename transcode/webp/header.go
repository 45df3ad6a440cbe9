package webp

import (
	"bytes"
	"encoding/binary"
	"io"

	"github.com/pipefs/pipefs/transcode"
)

// Flags of VP8X.
const (
	flagAnimated = 1 << 1
	flagEXIF     = 1 << 3
	flagAlpha    = 1 << 4
	flagICC      = 1 << 5
)

const (
	// maxMeta bounds a metadata chunk that is kept, in bytes.
	maxMeta = 8 << 20
	// maxChunks bounds the walk.
	maxChunks = 1 << 16
)

// header is what the chunks say before the pixels are decoded.
type header struct {
	width, height int
	alpha         bool
	animated      bool
	lossless      bool
	flags         byte
	exif, icc     []byte
	data          []byte // of VP8 or VP8L; its beginning only where probed
	alphaData     []byte // of ALPH
}

// chunk is a chunk's place in the file.
type chunk struct {
	kind string
	at   int64 // of the data
	size int64
}

// walk calls f for each chunk, in order, until it returns false.
func walk(w *transcode.Window, f func(c chunk) (bool, error)) error {
	b, err := w.At(0, 12)
	if err != nil {
		return err
	}
	if !(Decoder{}).Sniff(b) {
		return transcode.Errorf(transcode.ErrBad, "not a WebP file")
	}
	end := 8 + int64(binary.LittleEndian.Uint32(b[4:]))
	at := int64(12)
	for n := 0; at+8 <= end; n++ {
		if n == maxChunks {
			return transcode.Errorf(transcode.ErrUnsupported, "WebP of more than %d chunks", maxChunks)
		}
		if b, err = w.At(at, 8); err != nil {
			return err
		}
		c := chunk{string(b[:4]), at + 8, int64(binary.LittleEndian.Uint32(b[4:]))}
		if more, err := f(c); err != nil || !more {
			return err
		}
		at = c.at + c.size + c.size&1
	}
	return nil
}

// parse reads the header of a file. With whole set it keeps what Decode needs.
func parse(r io.ReaderAt, size int64, lim transcode.Limits, whole bool) (*header, error) {
	h := &header{}
	w := transcode.NewWindow(r, size)
	keep := func(c chunk) ([]byte, error) {
		if c.size > maxMeta && c.kind != "VP8 " && c.kind != "VP8L" && c.kind != "ALPH" {
			return nil, nil
		}
		b, err := w.At(c.at, int(c.size))
		return bytes.Clone(b), err
	}
	err := walk(w, func(c chunk) (bool, error) {
		var err error
		switch c.kind {
		case "VP8X":
			if h.width != 0 || c.size < 10 {
				return false, transcode.Errorf(transcode.ErrBad, "WebP: VP8X of %d bytes", c.size)
			}
			b, err := w.At(c.at, 10)
			if err != nil {
				return false, err
			}
			h.flags = b[0]
			h.animated = b[0]&flagAnimated != 0
			h.width, h.height = 1+int(uint24(b[4:])), 1+int(uint24(b[7:]))
		case "VP8 ", "VP8L":
			if h.data != nil {
				return true, nil // only the first one counts
			}
			if err := h.pixels(w, c); err != nil {
				return false, err
			}
			if whole {
				if h.data, err = keep(c); err != nil {
					return false, err
				}
			}
		case "ALPH":
			if h.data != nil {
				return true, nil
			}
			h.alpha = true
			if whole {
				h.alphaData, err = keep(c)
			}
		case "EXIF":
			if h.exif == nil {
				h.exif, err = keep(c)
			}
			h.exif = bytes.TrimPrefix(h.exif, []byte("Exif\x00\x00"))
		case "ICCP":
			if h.icc == nil && whole {
				h.icc, err = keep(c)
			}
		}
		if err != nil {
			return false, err
		}
		// Metadata may follow the pixels, where VP8X says that there is any.
		return h.data == nil || h.flags&flagEXIF != 0 && h.exif == nil, nil
	})
	switch {
	case err != nil && h.data == nil:
		return nil, err
	case h.width == 0 || h.data == nil && !h.animated:
		return nil, transcode.Errorf(transcode.ErrTruncated, "WebP without a picture")
	}
	return h, lim.CheckSize(h.width, h.height)
}

// pixels reads the size and the alpha of a VP8 or VP8L chunk.
func (h *header) pixels(w *transcode.Window, c chunk) error {
	b, err := w.At(c.at, int(min(10, c.size)))
	if err != nil {
		return err
	}
	var width, height int
	switch {
	case c.kind == "VP8L" && len(b) >= 5 && b[0] == 0x2f:
		bits := binary.LittleEndian.Uint32(b[1:])
		width, height = 1+int(bits&0x3fff), 1+int(bits>>14&0x3fff)
		h.lossless = true
		h.alpha = bits>>28&1 != 0
	case c.kind == "VP8 " && len(b) >= 10 && b[3] == 0x9d && b[4] == 1 && b[5] == 0x2a:
		width, height = int(binary.LittleEndian.Uint16(b[6:])&0x3fff), int(binary.LittleEndian.Uint16(b[8:])&0x3fff)
	default:
		return transcode.Errorf(transcode.ErrBad, "WebP: a %s chunk begins with % x", c.kind, b)
	}
	if h.width != 0 && (width != h.width || height != h.height) {
		return transcode.Errorf(transcode.ErrBad, "WebP: %d by %d pixels on a canvas of %d by %d", width, height, h.width, h.height)
	}
	h.width, h.height = width, height
	h.data = []byte{}
	return nil
}

func uint24(b []byte) uint32 { return uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 }

// mode is what the picture decodes to.
func (h *header) mode() transcode.Mode {
	switch {
	case h.animated:
		return transcode.ModeNone
	case h.alpha:
		return transcode.ModeRGBA
	}
	return transcode.ModeRGB
}

// Decoder is the [transcode.Decoder] of WebP.
type Decoder struct{}

// Format returns transcode.WebP.
func (Decoder) Format() transcode.Format { return transcode.WebP }

// ID names this implementation.
func (Decoder) ID() string { return "webp1" }

// Extensions of WebP files.
func (Decoder) Extensions() []string { return []string{"webp"} }

// Sniff looks for the container's two signatures.
func (Decoder) Sniff(head []byte) bool {
	return len(head) >= 12 && string(head[:4]) == "RIFF" && string(head[8:12]) == "WEBP"
}

// Probe reads the chunks' headers. An animation has ModeNone.
func (Decoder) Probe(r io.ReaderAt, size int64, lim transcode.Limits) (transcode.Info, error) {
	h, err := parse(r, size, lim, false)
	if err != nil {
		return transcode.Info{}, err
	}
	return transcode.Info{
		Format: transcode.WebP, Mode: h.mode(), Width: h.width, Height: h.height,
		Orientation: transcode.EXIFOrientation(h.exif), Animated: h.animated, Lossy: !h.lossless,
	}, nil
}
