package transcode

import (
	"errors"
	"io"
)

// ReadHead reads the first n bytes of a file of size bytes, or all of it where
// it is shorter. A file that has become shorter than size is ErrTruncated; any
// other error is the reader's own.
func ReadHead(r io.ReaderAt, size int64, n int) ([]byte, error) {
	b := make([]byte, min(size, int64(n)))
	switch got, err := r.ReadAt(b, 0); {
	case got == len(b):
		return b, nil
	case err == nil || errors.Is(err, io.EOF):
		return nil, Errorf(ErrTruncated, "file ends after %d of %d bytes", got, size)
	default:
		return nil, err
	}
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
