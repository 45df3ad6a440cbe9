package archive

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"sync"

	"github.com/klauspost/compress/flate"

	"github.com/pipefs/pipefs/internal/source"
)

// maxInflated is the longest deflated member that is read, in bytes: it is inflated whole.
const maxInflated = 256 << 20

// file is an open member.
type file struct {
	source.File // that it is
	entry
	in    *source.File // the archive
	name  string
	pages *pages // of Parquet files

	once     sync.Once
	inflated []byte
	err      error
}

// Name implements [source.Opened]: the archive, and the member behind a colon.
func (f *file) Name() string { return f.in.Name() + ":" + f.name }

// Close implements [source.Opened].
func (f *file) Close() error { return f.in.Close() }

// Scattered implements [source.Opened].
func (f *file) Scattered() { f.in.Scattered() }

// Fetch implements [source.Opened].
func (f *file) Fetch(off, n int64) {
	if f.isPacked() {
		off, n = 0, f.packed
	}
	f.in.Fetch(f.offset+off, n)
}

// Verify implements [source.Opened]: the archive is the one that was scanned.
func (f *file) Verify() error {
	if err := f.in.Verify(); err != nil {
		return fmt.Errorf("%s: %w", f.Name(), err)
	}
	return nil
}

// ReadAt implements [source.Opened].
func (f *file) ReadAt(b []byte, off int64) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	if f.isPacked() {
		if f.once.Do(f.inflate); f.err != nil {
			return 0, f.err
		}
		return bytes.NewReader(f.inflated).ReadAt(b, off)
	}
	var end error
	switch left := f.size - off; {
	case off < 0 || left <= 0:
		return 0, io.EOF
	case int64(len(b)) > left:
		b, end = b[:left], io.EOF
	}
	n, err := f.in.ReadAt(b, f.offset+off)
	if n < len(b) && errors.Is(err, io.EOF) {
		return n, f.cut()
	}
	if err != nil && n < len(b) {
		return n, err
	}
	return n, end
}

// cut is that the archive ends within the member: it was longer when it was scanned.
func (f *file) cut() error {
	return fmt.Errorf("%s: the archive is shorter than it was: %w", f.Name(), source.ErrChanged)
}

// load reads what is stored.
func (f *file) load() ([]byte, error) {
	packed := make([]byte, f.packed)
	switch n, err := f.in.ReadAt(packed, f.offset); {
	case n == len(packed):
		return packed, nil
	case err == nil, errors.Is(err, io.EOF):
		return nil, f.cut()
	default:
		return nil, err
	}
}

// inflate reads the whole member. What its directory says of the length and the checksum has to hold.
func (f *file) inflate() {
	if f.codec == pageCodec {
		f.inflated, f.err = f.pages.value(f)
		return
	}
	var packed []byte
	if packed, f.err = f.load(); f.err != nil {
		return
	}
	r := flate.NewReader(bytes.NewReader(packed))
	defer r.Close()
	data := bytes.NewBuffer(make([]byte, 0, min(f.size, 16*f.packed)+bytes.MinRead))
	n, err := io.Copy(data, io.LimitReader(r, f.size+1))
	switch {
	case err != nil:
		f.err = fmt.Errorf("%s: the member is damaged: %w", f.Name(), err)
	case n != f.size:
		f.err = fmt.Errorf("%s: the member is damaged: it has another length than the %d bytes that the archive says", f.Name(), f.size)
	case crc32.ChecksumIEEE(data.Bytes()) != f.crc:
		f.err = fmt.Errorf("%s: the member is damaged: its checksum is wrong", f.Name())
	default:
		f.inflated = data.Bytes()
	}
}
