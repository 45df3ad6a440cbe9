package png

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"

	"github.com/pipefs/pipefs/transcode"
)

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
