package strategy

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"
)

// Compressions of what is stored.
const (
	None = "none"
	Zstd = "zstd"
	Zlib = "zlib"
	Gzip = "gzip"
)

// A record is a header and a body. The header is little-endian, with 32 bits each: the
// length of the body, the number of the sample, and the CRC32C of both and the body. The
// last record of a shard has the number trailer; its body is the number of other records.
// So a shard that was cut off between two records is detected.
const (
	headerSize  = 12
	trailer     = 1<<32 - 1
	trailerSize = 4
)

// recordSize is what a body takes in a shard that is not compressed.
func recordSize(body int64) int64 { return headerSize + body }

// errEnd: all records were read.
var errEnd = errors.New("end of the shard")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// block is how many bytes of a shard are written and read at once.
const block = 1 << 20

// shardWriter writes a shard.
type shardWriter struct {
	file  *os.File
	buf   *bufio.Writer
	pack  io.WriteCloser // nil without compression
	to    io.Writer
	count uint32
}

func createShard(name, compression string) (*shardWriter, error) {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	w := &shardWriter{file: f, buf: bufio.NewWriterSize(f, block)}
	w.to = w.buf
	switch compression {
	case None:
	case Zstd:
		// One thread, since each worker has its own encoder.
		w.pack, err = zstd.NewWriter(w.buf, zstd.WithEncoderConcurrency(1))
	case Zlib:
		w.pack = zlib.NewWriter(w.buf)
	case Gzip:
		w.pack = gzip.NewWriter(w.buf)
	default:
		err = fmt.Errorf("unknown compression %q", compression)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	if w.pack != nil {
		w.to = w.pack
	}
	return w, nil
}

// append writes a record.
func (w *shardWriter) append(index uint32, body []byte) error {
	if int64(len(body)) > 1<<31-1 {
		return fmt.Errorf("%s: a record of %d bytes, more than 2 GiB", w.file.Name(), len(body))
	}
	var h [headerSize]byte
	binary.LittleEndian.PutUint32(h[0:], uint32(len(body)))
	binary.LittleEndian.PutUint32(h[4:], index)
	binary.LittleEndian.PutUint32(h[8:], checksum(h[:8], body))
	if _, err := w.to.Write(h[:]); err != nil {
		return err
	}
	w.count++
	_, err := w.to.Write(body)
	return err
}

func checksum(head, body []byte) uint32 {
	return crc32.Update(crc32.Checksum(head, castagnoli), castagnoli, body)
}

// finish returns the length of the shard when it is on the disk.
func (w *shardWriter) finish() (size int64, err error) {
	defer func() { err = errors.Join(err, w.file.Close()) }()
	if err := w.append(trailer, binary.LittleEndian.AppendUint32(nil, w.count)); err != nil {
		return 0, err
	}
	if w.pack != nil {
		if err := w.pack.Close(); err != nil {
			return 0, err
		}
	}
	if err := w.buf.Flush(); err != nil {
		return 0, err
	}
	if err := w.file.Sync(); err != nil {
		return 0, err
	}
	return w.file.Seek(0, io.SeekCurrent)
}

// shardReader reads a shard from end to end.
type shardReader struct {
	file  *os.File
	from  io.Reader
	close func()
	count uint32
}

func openShard(name, compression string) (*shardReader, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	// Some file systems do not take advice.
	_ = unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_SEQUENTIAL)
	r := &shardReader{file: f, close: func() {}}
	buf := bufio.NewReaderSize(f, block)
	r.from = buf
	switch compression {
	case None:
	case Zstd:
		var d *zstd.Decoder
		if d, err = zstd.NewReader(buf, zstd.WithDecoderConcurrency(1)); err == nil {
			r.from, r.close = d, d.Close
		}
	case Zlib:
		r.from, err = zlib.NewReader(buf)
	case Gzip:
		r.from, err = gzip.NewReader(buf)
	default:
		err = fmt.Errorf("unknown compression %q", compression)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return r, nil
}

func (r *shardReader) Close() {
	r.close()
	r.file.Close()
}

// next reads a record into buf, if that has room. expect returns the length of the body
// of a sample, or -1 if there is no such sample. After the last record next returns
// errEnd.
func (r *shardReader) next(expect func(index uint32) int64, buf []byte) (index uint32, body []byte, err error) {
	var h [headerSize]byte
	if _, err := io.ReadFull(r.from, h[:]); err != nil {
		return 0, buf, r.damaged(err)
	}
	length := int64(binary.LittleEndian.Uint32(h[0:]))
	index = binary.LittleEndian.Uint32(h[4:])
	want := int64(trailerSize)
	if index != trailer {
		want = expect(index)
	}
	if length != want {
		return 0, buf, r.damaged(fmt.Errorf("%d bytes of sample %d, which has %d", length, index, want))
	}
	if int64(cap(buf)) < length {
		buf = make([]byte, length)
	}
	body = buf[:length]
	if _, err := io.ReadFull(r.from, body); err != nil {
		return 0, buf, r.damaged(err)
	}
	if checksum(h[:8], body) != binary.LittleEndian.Uint32(h[8:]) {
		return 0, buf, r.damaged(errors.New("the checksum does not match"))
	}
	if index == trailer {
		if count := binary.LittleEndian.Uint32(body); count != r.count {
			return 0, buf, r.damaged(fmt.Errorf("%d records were written", count))
		}
		return 0, buf, errEnd
	}
	r.count++
	return index, body, nil
}

// damaged is the error about a record that cannot be read.
func (r *shardReader) damaged(err error) error {
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("%s: what was stored cannot be read back, after %d records: %w", r.file.Name(), r.count, err)
}
