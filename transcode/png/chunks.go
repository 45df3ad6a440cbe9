package png

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"

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

const (
	// maxChunks bounds the walk through a file of tiny chunks.
	maxChunks = 1 << 20
	// maxMeta bounds the metadata that is kept, chunk by chunk, in bytes.
	maxMeta = 8 << 20
)

// wanted says which chunks are worth reading apart from IDAT.
func wanted(kind string) bool {
	switch kind {
	case "IHDR", "PLTE", "tRNS", "acTL", "fcTL", "eXIf", "iCCP":
		return true
	}
	return false
}

// walker goes from chunk to chunk.
type walker struct {
	h    *header
	seen map[string]bool
}

// chunk handles one chunk other than IDAT and IEND. Order matters: IHDR comes
// first, and what describes the pixels precedes them.
func (w *walker) chunk(kind string, b []byte) error {
	if !w.seen["IHDR"] && kind != "IHDR" {
		return transcode.Errorf(transcode.ErrBad, "PNG: %q before IHDR", kind)
	}
	if kind == "IHDR" || kind == "PLTE" {
		if w.seen[kind] {
			return transcode.Errorf(transcode.ErrBad, "PNG: second %s", kind)
		}
	}
	late := w.seen["IDAT"]
	w.seen[kind] = true
	switch kind {
	case "IHDR":
		return w.h.ihdr(b)
	case "PLTE":
		return w.h.plte(b)
	case "tRNS":
		if !late {
			w.h.trns(b)
		}
		return nil
	case "acTL", "fcTL":
		if !late {
			w.h.animation(kind, b)
		}
		return nil
	}
	if critical(kind) {
		return transcode.Errorf(transcode.ErrUnsupported, "PNG: critical chunk %q", kind)
	}
	w.h.metadata(kind, b)
	return nil
}

// critical reports whether a decoder must know the chunk to decode the pixels.
func critical(kind string) bool { return kind[0]&0x20 == 0 }

// idat checks what has to stand before the pixels.
func (w *walker) idat() error {
	switch {
	case !w.seen["IHDR"]:
		return transcode.Errorf(transcode.ErrBad, "PNG: IDAT before IHDR")
	case w.h.colour == colourPalette && !w.seen["PLTE"]:
		return transcode.Errorf(transcode.ErrBad, "PNG: no palette")
	}
	w.seen["IDAT"] = true
	return nil
}

// parse splits a whole file: the header, and the parts of the pixels' stream.
func parse(src []byte) (*header, [][]byte, error) {
	if len(src) < len(signature) || string(src[:len(signature)]) != signature {
		return nil, nil, transcode.Errorf(transcode.ErrBad, "not a PNG file")
	}
	w := walker{h: &header{}, seen: map[string]bool{}}
	var parts [][]byte
	at := len(signature)
	for n := 0; ; n++ {
		if n == maxChunks {
			return nil, nil, transcode.Errorf(transcode.ErrUnsupported, "PNG of more than %d chunks", maxChunks)
		}
		if len(src)-at < 8 {
			break
		}
		length, kind := int64(binary.BigEndian.Uint32(src[at:])), string(src[at+4:at+8])
		if length > int64(len(src)-at-12) {
			break
		}
		data := src[at+8 : at+8+int(length)]
		sum := crc32.ChecksumIEEE(src[at+4 : at+8+int(length)])
		damaged := sum != binary.BigEndian.Uint32(src[at+8+int(length):])
		if damaged && (critical(kind) || len(parts) == 0) {
			return nil, nil, transcode.Errorf(transcode.ErrBad, "PNG: %q at byte %d has a wrong CRC", kind, at)
		}
		at += 12 + int(length)
		var err error
		switch {
		case kind == "IEND":
			if len(parts) == 0 {
				return nil, nil, transcode.Errorf(transcode.ErrBad, "PNG without pixels")
			}
			w.h.ended = true
			return w.h, parts, nil
		case kind == "IDAT":
			if err = w.idat(); err == nil {
				parts = append(parts, data)
			}
		case damaged: // what follows the pixels is not worth them
		default:
			err = w.chunk(kind, data)
		}
		if err != nil {
			return nil, nil, err
		}
	}
	// All pixels may be there although IEND is not. Decoding shows whether they are.
	if len(parts) == 0 {
		return nil, nil, transcode.Errorf(transcode.ErrTruncated, "PNG ends before its pixels")
	}
	return w.h, parts, nil
}

// Decoder is the [transcode.Decoder] of PNG.
type Decoder struct{}

// Format returns transcode.PNG.
func (Decoder) Format() transcode.Format { return transcode.PNG }

// ID names this implementation.
func (Decoder) ID() string { return "png1" }

// Extensions of PNG files.
func (Decoder) Extensions() []string { return []string{"png"} }

// Sniff looks for the signature.
func (Decoder) Sniff(head []byte) bool {
	return len(head) >= len(signature) && string(head[:len(signature)]) == signature
}

// Probe reads all chunks but IDAT, skipping from one to the next: eXIf may stand
// at the end.
func (Decoder) Probe(r io.ReaderAt, size int64, lim transcode.Limits) (transcode.Info, error) {
	w := walker{h: &header{}, seen: map[string]bool{}}
	f := transcode.NewWindow(r, size)
	head, err := f.At(0, len(signature))
	if err != nil {
		return transcode.Info{}, err
	}
	if string(head) != signature {
		return transcode.Info{}, transcode.Errorf(transcode.ErrBad, "not a PNG file")
	}
	at := int64(len(signature))
	for range maxChunks {
		b, err := f.At(at, 8)
		if err != nil {
			return w.end(err)
		}
		length, kind := int64(binary.BigEndian.Uint32(b)), string(b[4:])
		if at+12+length > size {
			return w.end(transcode.Errorf(transcode.ErrTruncated, "PNG: %q at byte %d ends after the file", kind, at))
		}
		switch {
		case kind == "IEND":
			if !w.seen["IDAT"] {
				return transcode.Info{}, transcode.Errorf(transcode.ErrBad, "PNG without pixels")
			}
			return w.h.info(), nil
		case kind == "IDAT":
			if err := w.idat(); err != nil {
				return transcode.Info{}, err
			}
		case wanted(kind) && (critical(kind) || kind == "tRNS" || length <= maxMeta):
			if length > maxMeta {
				return transcode.Info{}, transcode.Errorf(transcode.ErrBad, "PNG: %s of %d bytes", kind, length)
			}
			if err := w.read(f, kind, at, int(length)); err != nil {
				return transcode.Info{}, err
			}
			if kind == "IHDR" {
				if err := lim.CheckSize(w.h.width, w.h.height); err != nil {
					return transcode.Info{}, err
				}
			}
		case critical(kind):
			return transcode.Info{}, transcode.Errorf(transcode.ErrUnsupported, "PNG: critical chunk %q", kind)
		}
		at += 12 + length
	}
	return transcode.Info{}, transcode.Errorf(transcode.ErrUnsupported, "PNG of more than %d chunks", maxChunks)
}

// read reads and handles the chunk at an offset.
func (w *walker) read(f *transcode.Window, kind string, at int64, length int) error {
	if kind == "iCCP" {
		length = 0 // what is in it does not matter here
	}
	b, err := f.At(at+4, 4+length+4)
	if err != nil {
		return err
	}
	sum := binary.BigEndian.Uint32(b[4+length:])
	if kind != "iCCP" && sum != crc32.ChecksumIEEE(b[:4+length]) {
		if !w.seen["IDAT"] {
			return transcode.Errorf(transcode.ErrBad, "PNG: %q at byte %d has a wrong CRC", kind, at)
		}
		return nil
	}
	return w.chunk(kind, append([]byte(nil), b[4:4+length]...))
}

// end is the result where the file ends without IEND: the header, if it has
// come to the pixels, as in parse.
func (w *walker) end(err error) (transcode.Info, error) {
	if w.seen["IDAT"] && errors.Is(err, transcode.ErrTruncated) {
		return w.h.info(), nil
	}
	return transcode.Info{}, err
}
