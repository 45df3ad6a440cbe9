package transcode

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"sync"
)

// head is a file whose beginning is read once: to tell the format, and to read the header.
type head struct {
	io.ReaderAt
	size int64
	buf  []byte // the beginning, as far as it was read
}

// heads keeps heads with their memory: each look at a file needs one.
var heads = sync.Pool{New: func() any { return new(head) }}

const (
	// headBlock is how much is read first, in bytes. Most headers are shorter.
	headBlock = 4 << 10
	// maxPooled bounds the memory that is used again.
	maxPooled = 64 << 10
)

func openHead(r io.ReaderAt, size int64) *head {
	h := heads.Get().(*head)
	h.ReaderAt, h.size = r, size
	return h
}

func (h *head) close() {
	h.ReaderAt, h.buf = nil, h.buf[:0]
	if cap(h.buf) <= maxPooled {
		heads.Put(h)
	}
}

// first returns the first n bytes, or all where there are fewer. They are valid until
// the head is closed.
func (h *head) first(n int) ([]byte, error) {
	n = int(min(h.size, int64(n)))
	had := len(h.buf)
	if n <= had {
		return h.buf[:n], nil
	}
	if n > cap(h.buf) {
		h.buf = append(make([]byte, 0, max(n, headBlock)), h.buf...)
	}
	h.buf = h.buf[:n]
	got, err := h.ReaderAt.ReadAt(h.buf[had:], int64(had))
	if got += had; got == n {
		return h.buf, nil
	}
	h.buf = h.buf[:had]
	if err == nil || errors.Is(err, io.EOF) {
		err = Errorf(ErrTruncated, "file ends after %d of %d bytes", got, h.size)
	}
	return nil, err
}

// ReadAt implements [io.ReaderAt].
func (h *head) ReadAt(b []byte, off int64) (int, error) {
	if off >= 0 && off+int64(len(b)) <= int64(len(h.buf)) {
		return copy(b, h.buf[off:]), nil
	}
	return h.ReaderAt.ReadAt(b, off)
}

// ReadHead reads the first n bytes of a file of size bytes, or all of it where
// it is shorter. They are valid as long as r is. A file that has become shorter than size
// is ErrTruncated; any other error is the reader's own.
func ReadHead(r io.ReaderAt, size int64, n int) ([]byte, error) {
	h, ok := r.(*head)
	if !ok {
		h = &head{ReaderAt: r, size: size}
	}
	return h.first(n)
}

// windowBlock is how much a Window reads at a time, in bytes.
const windowBlock = 4 << 10

// Window reads a file block by block, for a Probe that jumps from one header to
// the next.
type Window struct {
	r     io.ReaderAt
	size  int64
	start int64
	buf   []byte
}

// NewWindow returns a window over a file of size bytes.
func NewWindow(r io.ReaderAt, size int64) *Window { return &Window{r: r, size: size} }

// At returns the n bytes at offset, valid until the next call. Past the end of
// the file the error is ErrTruncated.
func (w *Window) At(offset int64, n int) ([]byte, error) {
	if offset >= w.start && offset+int64(n) <= w.start+int64(len(w.buf)) {
		return w.buf[offset-w.start:][:n], nil
	}
	if offset+int64(n) > w.size {
		return nil, Errorf(ErrTruncated, "file ends after %d bytes, in the middle of what begins at %d", w.size, offset)
	}
	if h, ok := w.r.(*head); ok && offset+int64(n) <= int64(len(h.buf)) {
		return h.buf[offset:][:n], nil
	}
	b := make([]byte, min(max(int64(n), windowBlock), w.size-offset))
	if got, err := w.r.ReadAt(b, offset); got < len(b) {
		if err == nil || errors.Is(err, io.EOF) {
			err = Errorf(ErrTruncated, "file ends after %d of %d bytes", offset+int64(got), w.size)
		}
		return nil, err
	}
	w.start, w.buf = offset, b
	return b[:n], nil
}

// exifOrientation is the TIFF tag of the orientation.
const exifOrientation = 0x0112

// EXIFOrientation returns the orientation, 1 to 8, that a TIFF structure tells;
// 0 where it tells none that EXIF defines.
func EXIFOrientation(exif []byte) uint8 {
	field, order := findOrientation(exif)
	if field == nil {
		return 0
	}
	value := uint32(order.Uint16(field))
	if len(field) == 4 {
		value = order.Uint32(field)
	}
	if value < 1 || value > 8 {
		return 0
	}
	return uint8(value)
}

// EXIFUpright returns exif with an orientation of 1, for a picture to which its
// orientation has been applied. Everything else stays as it is, byte for byte.
func EXIFUpright(exif []byte) []byte {
	exif = bytes.Clone(exif)
	switch field, order := findOrientation(exif); len(field) {
	case 2:
		order.PutUint16(field, 1)
	case 4:
		order.PutUint32(field, 1)
	}
	return exif
}

// findOrientation returns the part of exif that holds the orientation, 2 or 4
// bytes; none where there is no such entry.
func findOrientation(exif []byte) ([]byte, binary.ByteOrder) {
	if len(exif) < 8 {
		return nil, nil
	}
	var order binary.ByteOrder = binary.LittleEndian
	switch string(exif[:4]) {
	case "II*\x00":
	case "MM\x00*":
		order = binary.BigEndian
	default:
		return nil, nil
	}
	ifd := int64(order.Uint32(exif[4:]))
	if ifd+2 > int64(len(exif)) {
		return nil, nil
	}
	entries := exif[ifd+2:]
	for range order.Uint16(exif[ifd:]) {
		if len(entries) < 12 {
			return nil, nil
		}
		if order.Uint16(entries) == exifOrientation {
			// Values of up to four bytes stand in the entry itself, left-justified.
			// EXIF demands SHORT; LONG occurs.
			switch order.Uint16(entries[2:]) {
			case 3:
				return entries[8:10], order
			case 4:
				return entries[8:12], order
			}
			return nil, nil
		}
		entries = entries[12:]
	}
	return nil, nil
}
