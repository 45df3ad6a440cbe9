package archive

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"sync"
	"sync/atomic"

	"github.com/klauspost/compress/flate"

	"github.com/pipefs/pipefs/internal/source"
)

// maxInflated is the longest deflated member that is read, in bytes: it is inflated whole.
const maxInflated = 256 << 20

// fetchHeader is how much more is announced of a member with a local header, whose length is not known yet, in bytes.
const fetchHeader = 256

// file is an open member.
type file struct {
	source.File // that it is
	entry
	in    *source.File // the archive
	name  string
	pages *pages // of Parquet files

	data     atomic.Int64 // where the bytes lie in a zip, once a read has looked
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
	if f.hasHeader() {
		n += fetchHeader
	}
	f.in.Fetch(f.offset+off, n)
}

// start returns where the bytes of the member lie in the archive.
func (f *file) start() (int64, error) {
	if !f.hasHeader() {
		return f.offset, nil
	}
	if at := f.data.Load(); at > 0 {
		return at, nil
	}
	var h [zipHeader]byte
	if n, err := f.in.ReadAt(h[:], f.offset); n < len(h) {
		return 0, f.short(err)
	}
	at := f.offset + zipHeader + int64(binary.LittleEndian.Uint16(h[26:])) + int64(binary.LittleEndian.Uint16(h[28:]))
	if string(h[:len(zipSignature)]) != zipSignature || f.packed > f.in.Identity.Size-at {
		return 0, f.damaged(errors.New("its local header is wrong"))
	}
	f.data.Store(at)
	return at, nil
}

// damaged is the error of a member whose bytes cannot be right, unless they are those of another archive.
func (f *file) damaged(cause error) error {
	if err := f.Verify(); err != nil {
		return err
	}
	return fmt.Errorf("%s: the member is damaged: %w", f.Name(), cause)
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
	at, err := f.start()
	if err != nil {
		return 0, err
	}
	if n, err := f.in.ReadAt(b, at+off); n < len(b) {
		return n, f.short(err)
	}
	return len(b), end
}

// short is the error of a read that did not get all: where the archive ends within the member, it was longer when it was scanned.
func (f *file) short(err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return fmt.Errorf("%s: the archive is shorter than it was: %w", f.Name(), source.ErrChanged)
	}
	return err
}

// load reads what is stored.
func (f *file) load() ([]byte, error) {
	at, err := f.start()
	if err != nil {
		return nil, err
	}
	packed := make([]byte, f.packed)
	if n, err := f.in.ReadAt(packed, at); n < len(packed) {
		return nil, f.short(err)
	}
	return packed, nil
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
		f.err = f.damaged(err)
	case n != f.size:
		f.err = f.damaged(fmt.Errorf("it has another length than the %d bytes that the archive says", f.size))
	case crc32.ChecksumIEEE(data.Bytes()) != f.crc:
		f.err = f.damaged(errors.New("its checksum is wrong"))
	default:
		f.inflated = data.Bytes()
	}
}
