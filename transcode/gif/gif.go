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

import (
	"bytes"
	"compress/lzw"
	"context"
	"encoding/binary"
	"errors"
	"io"

	"github.com/pipefs/pipefs/transcode"
)

const (
	blockExtension = '!'
	blockFrame     = ','
	blockEnd       = ';'

	extensionControl = 0xf9
)

// header is what precedes the codes of the first frame.
type header struct {
	width, height int // of the screen
	x, y, w, h    int // of the frame
	interlaced    bool
	mode          transcode.Mode
	palette       []byte // RGBA
	transparent   int    // index; -1 for none
	bits          int    // of a pixel, as LZW counts them
	data          int64  // offset of the codes' first sub-block
	animated      bool
}

// parse reads the header and, where whole, looks for a second frame.
func parse(f *transcode.Window, lim transcode.Limits, whole bool) (*header, error) {
	b, err := f.At(0, 13)
	if err != nil {
		return nil, err
	}
	if !(Decoder{}).Sniff(b) {
		return nil, transcode.Errorf(transcode.ErrBad, "not a GIF file")
	}
	h := &header{transparent: -1}
	h.width, h.height = int(binary.LittleEndian.Uint16(b[6:])), int(binary.LittleEndian.Uint16(b[8:]))
	if err := lim.CheckSize(h.width, h.height); err != nil {
		return nil, err
	}
	var colours []byte
	at := int64(13)
	if flags := b[10]; flags&0x80 != 0 {
		if colours, at, err = readPalette(f, at, flags); err != nil {
			return nil, err
		}
	}
	if at, err = h.extensions(f, at); err != nil {
		return nil, err
	}
	if b, err = f.At(at, 9); err != nil {
		return nil, err
	}
	le := binary.LittleEndian
	h.x, h.y, h.w, h.h = int(le.Uint16(b)), int(le.Uint16(b[2:])), int(le.Uint16(b[4:])), int(le.Uint16(b[6:]))
	flags := b[8]
	h.interlaced = flags&0x40 != 0
	at += 9
	if flags&0x80 != 0 {
		if colours, at, err = readPalette(f, at, flags); err != nil {
			return nil, err
		}
	}
	switch {
	case colours == nil:
		return nil, transcode.Errorf(transcode.ErrUnsupported, "GIF without a palette")
	case h.x+h.w > h.width || h.y+h.h > h.height:
		return nil, transcode.Errorf(transcode.ErrUnsupported, "GIF frame over the edge of the screen")
	}
	h.setPalette(colours)
	if b, err = f.At(at, 1); err != nil {
		return nil, err
	}
	h.bits, h.data = int(b[0]), at+1
	if h.bits > maxBits {
		return nil, transcode.Errorf(transcode.ErrBad, "GIF: codes of %d bits", h.bits)
	}
	if whole {
		// The second frame's transparency is none of the first one's business.
		second := *h
		if at, err = skipBlocks(f, h.data); err == nil {
			_, err = second.extensions(f, at)
		}
		h.animated = err == nil
	}
	return h, nil
}

// extensions goes to the next frame and returns the offset of its rectangle.
func (h *header) extensions(f *transcode.Window, at int64) (int64, error) {
	for {
		b, err := f.At(at, 1)
		if err != nil {
			return 0, err
		}
		at++
		switch b[0] {
		case blockFrame:
			return at, nil
		case blockEnd:
			return 0, transcode.Errorf(transcode.ErrBad, "GIF without a frame")
		case blockExtension:
			if b, err = f.At(at, 1); err != nil {
				return 0, err
			}
			at++
			if b[0] == extensionControl {
				if b, err = f.At(at, 5); err != nil {
					return 0, err
				}
				if b[0] >= 4 && b[1]&1 != 0 {
					h.transparent = int(b[4])
				}
			}
			if at, err = skipBlocks(f, at); err != nil {
				return 0, err
			}
		}
		// Anything else is skipped, as Pillow does.
	}
}

// skipBlocks returns the offset after a sequence of sub-blocks.
func skipBlocks(f *transcode.Window, at int64) (int64, error) {
	for {
		b, err := f.At(at, 1)
		if err != nil {
			return 0, err
		}
		at += 1 + int64(b[0])
		if b[0] == 0 {
			return at, nil
		}
	}
}

func readPalette(f *transcode.Window, at int64, flags byte) ([]byte, int64, error) {
	n := 3 << (flags&7 + 1)
	b, err := f.At(at, n)
	return bytes.Clone(b), at + int64(n), err
}

// setPalette decides on the mode: a ramp says nothing that grey does not.
func (h *header) setPalette(rgb []byte) {
	ramp := true
	for i := 0; i+3 <= len(rgb); i += 3 {
		v := byte(i / 3)
		ramp = ramp && rgb[i] == v && rgb[i+1] == v && rgb[i+2] == v
		h.palette = append(h.palette, rgb[i], rgb[i+1], rgb[i+2], 255)
	}
	h.mode = transcode.ModeP
	if ramp {
		h.mode, h.palette = transcode.ModeL, nil
	}
	if 4*h.transparent+3 < len(h.palette) && h.transparent >= 0 {
		h.palette[4*h.transparent+3] = 0
	}
}

// Decoder is the [transcode.Decoder] of GIF.
type Decoder struct{}

// Format returns transcode.GIF.
func (Decoder) Format() transcode.Format { return transcode.GIF }

// ID names this implementation.
func (Decoder) ID() string { return "gif1" }

// Extensions of GIF files.
func (Decoder) Extensions() []string { return []string{"gif"} }

// Sniff looks for the signature of either version.
func (Decoder) Sniff(head []byte) bool {
	return len(head) >= 6 && (string(head[:6]) == "GIF87a" || string(head[:6]) == "GIF89a")
}

// Probe reads the header, and goes on until a second frame or the end.
func (Decoder) Probe(r io.ReaderAt, size int64, lim transcode.Limits) (transcode.Info, error) {
	h, err := parse(transcode.NewWindow(r, size), lim, true)
	if err != nil {
		return transcode.Info{}, err
	}
	return transcode.Info{
		Format: transcode.GIF, Mode: h.mode, Width: h.width, Height: h.height,
		Transparent: h.transparent >= 0, Animated: h.animated,
	}, nil
}

// Decode decodes the first frame.
func (Decoder) Decode(_ context.Context, src []byte, lim transcode.Limits) (*transcode.Pixels, error) {
	h, err := parse(transcode.NewWindow(bytes.NewReader(src), int64(len(src))), lim, false)
	if err != nil {
		return nil, err
	}
	// An LZW code stands for at most 4096 pixels and takes 3 bits or more.
	if int64(h.w)*int64(h.h) > (int64(len(src))-h.data)*8/3*4096 {
		return nil, transcode.Errorf(transcode.ErrTruncated, "GIF frame of %d by %d pixels in %d bytes", h.w, h.h, len(src))
	}
	px := &transcode.Pixels{Width: h.width, Height: h.height, Mode: h.mode, Palette: h.palette}
	px.Pix = make([]byte, px.Len())
	if h.transparent > 0 {
		for i := range px.Pix {
			px.Pix[i] = byte(h.transparent)
		}
	}
	var codes io.Reader = &oddCodes{from: blocks{src: src[h.data:]}, bits: h.bits, last: none}
	if h.bits >= 2 && h.bits <= 8 { // as the format wants it
		codes = lzw.NewReader(&blocks{src: src[h.data:]}, lzw.LSB, h.bits)
	}
	for _, y := range h.rows() {
		row := px.Pix[(h.y+y)*px.Width+h.x:][:h.w]
		switch _, err := io.ReadFull(codes, row); err {
		case nil:
		case io.EOF, io.ErrUnexpectedEOF:
			return nil, transcode.Errorf(transcode.ErrTruncated, "GIF: the pixels end early")
		default:
			return nil, transcode.Errorf(transcode.ErrBad, "GIF: %v", err)
		}
	}
	return px, nil
}

const (
	maxBits = 12
	none    = -1
)

var errCode = errors.New("a code that stands for nothing")

// oddCodes reads codes of lengths that the format forbids, as Pillow does: of a pixel of more than 8 bits the lowest 8 count.
type oddCodes struct {
	from         blocks
	bits         int
	buffer, have int // bits that were read
	size         int // of a code; 0 at the beginning
	next         int // the code that is given next
	last         int // the code before; none behind the beginning and a code that clears
	lastPixel    byte
	pixel        [1 << maxBits]byte // the last one of a code
	before       [1 << maxBits]int  // the code for those before it
	ready        []byte             // pixels
	pixels       [1 << maxBits]byte
}

func (o *oddCodes) Read(p []byte) (n int, err error) {
	for len(o.ready) == 0 && err == nil {
		err = o.expand()
	}
	n = copy(p, o.ready)
	o.ready = o.ready[n:]
	return n, err
}

// expand reads a code, and writes what it stands for to ready.
func (o *oddCodes) expand() error {
	clear := 1 << o.bits
	if o.size == 0 {
		o.size, o.next = o.bits+1, clear+2
	}
	for ; o.have < o.size; o.have += 8 {
		b, err := o.from.ReadByte()
		if err != nil {
			return err
		}
		o.buffer |= int(b) << o.have
	}
	code := o.buffer & (1<<o.size - 1)
	o.buffer >>= o.size
	o.have -= o.size
	switch {
	case code == clear:
		o.size, o.last = 0, none
		return nil
	case code == clear+1: // the end
		return io.EOF
	case code > o.next, o.last == none && code > clear:
		return errCode
	}
	at, c := len(o.pixels), code
	if c == o.next {
		at--
		o.pixels[at], c = o.lastPixel, o.last
	}
	for c >= clear {
		if at <= 1 || c >= len(o.before) {
			return errCode
		}
		at--
		o.pixels[at], c = o.pixel[c], o.before[c]
	}
	at--
	o.pixels[at] = byte(c)
	if o.last != none && o.next < len(o.before) {
		o.pixel[o.next], o.before[o.next] = byte(c), o.last
		if o.next == 1<<o.size-1 && o.size < maxBits {
			o.size++
		}
		o.next++
	}
	o.last, o.lastPixel, o.ready = code, byte(c), o.pixels[at:]
	return nil
}

// rows lists the frame's rows in the order in which they are stored.
func (h *header) rows() []int {
	order := make([]int, 0, h.h)
	passes := [][2]int{{0, 1}}
	if h.interlaced {
		passes = [][2]int{{0, 8}, {4, 8}, {2, 4}, {1, 2}}
	}
	for _, p := range passes {
		for y := p[0]; y < h.h; y += p[1] {
			order = append(order, y)
		}
	}
	return order
}

// blocks reads the content of sub-blocks.
type blocks struct {
	src  []byte
	left int // of the current sub-block
}

func (b *blocks) ReadByte() (byte, error) {
	for b.left == 0 {
		if len(b.src) == 0 || b.src[0] == 0 {
			return 0, io.EOF
		}
		b.left, b.src = int(b.src[0]), b.src[1:]
	}
	if len(b.src) == 0 {
		return 0, io.EOF
	}
	c := b.src[0]
	b.src = b.src[1:]
	b.left--
	return c, nil
}

// Read is there because package lzw asks for it; it calls ReadByte only.
func (b *blocks) Read(p []byte) (int, error) {
	for i := range p {
		c, err := b.ReadByte()
		if err != nil {
			return i, err
		}
		p[i] = c
	}
	return len(p), nil
}
