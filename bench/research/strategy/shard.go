package strategy

import (
	"bufio"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/transcode"
)

// Compressions of what is stored.
const (
	None = "none"
	Zstd = "zstd"
	Zlib = "zlib"
	Gzip = "gzip"
)

// record is a sample in a shard: a value of package gob, and Length bytes of a file or of
// pixels behind it, which are not copied twice. The survey knows their shape.
type record struct {
	Index, Length      int
	Palette, EXIF, ICC []byte
	Orientation        uint8
	Planar             bool
	bytes              []byte
}

// overhead is the most that a record takes beside its parts.
const overhead = 64

// bodySize is what a payload takes of a record. EXIF and ICC are kept only with meta, for
// pipelines that end in files, which carry them.
func bodySize(p transcode.Payload, meta bool) int64 {
	n := size(p)
	if p.Pixels != nil && meta {
		n += int64(len(p.Pixels.Meta.EXIF) + len(p.Pixels.Meta.ICC))
	}
	return n
}

// recordOf is the record of a payload.
func recordOf(index int, p transcode.Payload, meta bool) (record, error) {
	px := p.Pixels
	if px == nil {
		return record{Index: index, bytes: p.Bytes}, nil
	}
	if s := p.Shape; px.Width != s.Width || px.Height != s.Height || px.Mode != s.Mode || px.Type != s.Type || len(px.Pix) != px.Len() {
		return record{}, transcode.Errorf(transcode.ErrInternal, "pixels of %v %dx%d (%d bytes) where %v %dx%d were planned",
			px.Mode, px.Width, px.Height, len(px.Pix), s.Mode, s.Width, s.Height)
	}
	r := record{Index: index, bytes: px.Pix, Palette: px.Palette, Orientation: px.Meta.Orientation, Planar: px.Planar}
	if meta {
		r.EXIF, r.ICC = px.Meta.EXIF, px.Meta.ICC
	}
	return r, nil
}

// payload is what a record holds, which lies in the record's memory.
func (r *record) payload(want transcode.Shape) (transcode.Payload, error) {
	if want.Stage&(transcode.Source|transcode.File) != 0 {
		return transcode.Payload{Shape: want, Bytes: r.bytes}, nil
	}
	px := &transcode.Pixels{
		Width: want.Width, Height: want.Height, Mode: want.Mode, Type: want.Type, Planar: r.Planar, Palette: r.Palette, Pix: r.bytes,
		Meta: transcode.Metadata{Orientation: r.Orientation, EXIF: r.EXIF, ICC: r.ICC},
	}
	if len(px.Pix) != px.Len() {
		return transcode.Payload{}, transcode.Errorf(transcode.ErrTruncated, "%d bytes of pixels where %d are needed", len(px.Pix), px.Len())
	}
	return transcode.Payload{Shape: want, Pixels: px}, nil
}

// block is how many bytes of a shard are written and read at once.
const block = 1 << 20

// writeShard writes a shard, and returns its length when it is on the disk. write calls add
// for each record.
func writeShard(name, compression string, write func(add func(record) error) error) (size int64, err error) {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	buf := bufio.NewWriterSize(f, block)
	var pack io.WriteCloser
	switch compression {
	case None:
		pack = nopCloser{buf}
	case Zstd:
		// One thread, since each worker has its own encoder.
		pack, err = zstd.NewWriter(buf, zstd.WithEncoderConcurrency(1))
	case Zlib:
		pack = zlib.NewWriter(buf)
	case Gzip:
		pack = gzip.NewWriter(buf)
	default:
		err = fmt.Errorf("unknown compression %q", compression)
	}
	if err != nil {
		return 0, err
	}
	encoder := gob.NewEncoder(pack)
	err = write(func(r record) error {
		r.Length = len(r.bytes)
		if err := encoder.Encode(r); err != nil {
			return err
		}
		_, err := pack.Write(r.bytes)
		return err
	})
	if err = errors.Join(err, pack.Close()); err != nil {
		return 0, err
	}
	if err := errors.Join(buf.Flush(), f.Sync()); err != nil {
		return 0, err
	}
	return f.Seek(0, io.SeekCurrent)
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

// readShard reads a shard from end to end, whose records have at most so many bytes. A record
// is valid until use returns, unless keep is set.
func readShard(name, compression string, most int64, keep bool, use func(*record) error) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	// Some file systems do not take advice.
	_ = unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_SEQUENTIAL)
	var from io.Reader = f
	switch compression {
	case None:
	case Zstd:
		var d *zstd.Decoder
		if d, err = zstd.NewReader(bufio.NewReaderSize(f, block), zstd.WithDecoderConcurrency(1)); err == nil {
			defer d.Close()
			from = d
		}
	case Zlib:
		from, err = zlib.NewReader(bufio.NewReaderSize(f, block))
	case Gzip:
		from, err = gzip.NewReader(bufio.NewReaderSize(f, block))
	default:
		err = fmt.Errorf("unknown compression %q", compression)
	}
	if err != nil {
		return unreadable(name, 0, err)
	}
	// gob reads no further than its values end in what has ReadByte.
	buf := bufio.NewReaderSize(from, block)
	decoder := gob.NewDecoder(buf)
	var memory []byte
	for count := 0; ; count++ {
		var r record
		err := decoder.Decode(&r)
		if errors.Is(err, io.EOF) { // epochs count samples
			return nil
		}
		if err == nil && (r.Length < 0 || int64(r.Length) > most) {
			err = fmt.Errorf("a record of %d bytes", r.Length)
		}
		if err == nil {
			if keep || cap(memory) < r.Length {
				memory = make([]byte, r.Length)
			}
			r.bytes = memory[:r.Length]
			_, err = io.ReadFull(buf, r.bytes)
		}
		if err != nil {
			return unreadable(name, count, err)
		}
		if err := use(&r); err != nil {
			return err
		}
	}
}

func unreadable(name string, count int, err error) error {
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("%s: what was stored cannot be read back, after %d records: %w", name, count, err)
}
