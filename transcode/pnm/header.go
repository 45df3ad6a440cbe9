package pnm

import (
	"io"

	"github.com/pipefs/pipefs/transcode"
)

// maxHead bounds what may precede the pixels, comments included.
const maxHead = 64 << 10

// header is what precedes the pixels.
type header struct {
	width, height int
	maxval        int // 0 for black and white
	mode          transcode.Mode
	data          int // offset of the pixels
}

// samples is the number of values in a row.
func (h *header) samples() int { return h.width * h.mode.Channels() }

// rowBytes is the length of a row of the file.
func (h *header) rowBytes() int {
	switch {
	case h.maxval == 0:
		return (h.width + 7) / 8
	case h.maxval > 255:
		return 2 * h.samples()
	}
	return h.samples()
}

func isSpace(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' }

// token reads one number that starts at or after b[i], and returns the offset
// after the white space that ends it.
func token(b []byte, i int) (value, next int, err error) {
	digits := 0
	for ; i < len(b); i++ {
		c := b[i]
		switch {
		case c == '#':
			i = comment(b, i)
		case isSpace(c):
			if digits > 0 {
				return value, i + 1, nil
			}
		case c < '0' || c > '9' || digits == 10:
			return 0, 0, transcode.Errorf(transcode.ErrBad, "PNM header: %q in a number", c)
		default:
			value = value*10 + int(c-'0')
			digits++
		}
	}
	if len(b) >= maxHead {
		return 0, 0, transcode.Errorf(transcode.ErrUnsupported, "PNM header of more than %d bytes", maxHead)
	}
	return 0, 0, transcode.Errorf(transcode.ErrTruncated, "PNM header")
}

// parse reads the header from the beginning of a file.
func parse(b []byte) (*header, error) {
	b = b[:min(len(b), maxHead)]
	if !(Decoder{}).Sniff(b) {
		return nil, transcode.Errorf(transcode.ErrBad, "not a PNM file")
	}
	if b[1] < '4' {
		return nil, transcode.Errorf(transcode.ErrUnsupported, "PNM in decimal digits, P%c: convert it to P%c", b[1], b[1]+3)
	}
	kind := b[1] - '4'
	h := &header{}
	var err error
	at := 2
	if h.width, at, err = token(b, at); err != nil {
		return nil, err
	}
	if h.height, at, err = token(b, at); err != nil {
		return nil, err
	}
	if kind > 0 {
		if h.maxval, at, err = token(b, at); err != nil {
			return nil, err
		}
		if h.maxval < 1 || h.maxval > 65535 {
			return nil, transcode.Errorf(transcode.ErrBad, "PNM maxval %d", h.maxval)
		}
	}
	switch {
	case kind == 0:
		h.mode = transcode.ModeBit
	case kind == 1 && h.maxval > 255:
		h.mode = transcode.ModeI16
	case kind == 1:
		h.mode = transcode.ModeL
	case h.maxval == 65535:
		h.mode = transcode.ModeRGB16
	default:
		h.mode = transcode.ModeRGB
	}
	h.data = at
	return h, nil
}

// check compares the header with the limits and with the length of the file.
func (h *header) check(size int64, lim transcode.Limits) error {
	if err := lim.CheckSize(h.width, h.height); err != nil {
		return err
	}
	want := int64(h.data) + int64(h.rowBytes())*int64(h.height)
	if want > size {
		return transcode.Errorf(transcode.ErrTruncated, "PNM file of %d bytes, want %d", size, want)
	}
	return nil
}

// Decoder is the [transcode.Decoder] of PNM.
type Decoder struct{}

// Format returns transcode.PNM.
func (Decoder) Format() transcode.Format { return transcode.PNM }

// ID names this implementation.
func (Decoder) ID() string { return "pnm1" }

// Extensions of any-map files.
func (Decoder) Extensions() []string { return []string{"ppm", "pgm", "pbm", "pnm"} }

// Sniff looks for the magic number and the white space after it.
func (Decoder) Sniff(head []byte) bool {
	return len(head) >= 3 && head[0] == 'P' && head[1] >= '1' && head[1] <= '6' && (isSpace(head[2]) || head[2] == '#')
}

// Probe reads the header.
func (Decoder) Probe(r io.ReaderAt, size int64, lim transcode.Limits) (transcode.Info, error) {
	// Headers are a few dozen bytes, unless somebody comments at length.
	var h *header
	for _, n := range []int{512, maxHead} {
		b, err := transcode.ReadHead(r, size, n)
		if err != nil {
			return transcode.Info{}, err
		}
		if h, err = parse(b); err == nil {
			break
		}
		if n == maxHead || int64(n) >= size {
			return transcode.Info{}, err
		}
	}
	if err := h.check(size, lim); err != nil {
		return transcode.Info{}, err
	}
	return transcode.Info{Format: transcode.PNM, Mode: h.mode, Width: h.width, Height: h.height}, nil
}
