package parquet

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
)

var errInflate = errors.New("a page has another length than it says")

// zstdReader is shared: it decodes without a stream.
var zstdReader = sync.OnceValues(func() (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(MaxPage))
})

// Inflate returns the bytes of a page of n bytes. It takes no more memory than that, or a small multiple of what
// packed has where that is less.
func Inflate(c Codec, packed []byte, n int) ([]byte, error) {
	if n < 0 || n > MaxPage {
		return nil, fmt.Errorf("a page would have %d bytes", n)
	}
	var data []byte
	var err error
	switch c {
	case None:
		data = packed
	case Snappy:
		if size, cause := snappy.DecodedLen(packed); cause != nil || size != n || n/64 > len(packed) {
			return nil, errInflate
		}
		data, err = snappy.Decode(nil, packed)
	case SnappyPart:
		if n/64 > len(packed) {
			return nil, errInflate
		}
		data, err = inflatePart(packed, n)
	case Gzip:
		data, err = gunzip(packed, n)
	case Zstd:
		var z *zstd.Decoder
		if z, err = zstdReader(); err != nil {
			return nil, err
		}
		var h zstd.Header
		if err := h.Decode(packed); err != nil || h.HasFCS && h.FrameContentSize != uint64(n) {
			return nil, errInflate
		}
		data, err = z.DecodeAll(packed, make([]byte, 0, min(n, 64*len(packed)+512)))
	case LZ4Raw:
		if n/256 > len(packed) {
			return nil, errInflate
		}
		var l s2.LZ4Converter
		b, size, cause := l.ConvertBlock(binary.AppendUvarint(make([]byte, 0, 2*len(packed)+16), uint64(n)), packed)
		if cause != nil || size != n {
			return nil, errInflate
		}
		data, err = s2.Decode(nil, b)
	default:
		return nil, c.Unread()
	}
	if err != nil {
		return nil, fmt.Errorf("a page is damaged: %w", err)
	}
	if len(data) != n {
		return nil, errInflate
	}
	return data, nil
}

func gunzip(packed []byte, n int) ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	defer z.Close()
	data := bytes.NewBuffer(make([]byte, 0, min(n, 16*len(packed))+bytes.MinRead))
	_, err = io.Copy(data, io.LimitReader(z, int64(n)+1))
	return data.Bytes(), err
}

// Unread says why pages of a codec are not read; nil is that they are.
func (c Codec) Unread() error {
	if slices.Contains([]Codec{None, Snappy, Gzip, Zstd, LZ4Raw}, c) {
		return nil
	}
	name := fmt.Sprintf("method %d", c)
	if int(c) < len(codecNames) {
		name = codecNames[c]
	}
	return fmt.Errorf("its pages are compressed by %s, and only Snappy, gzip, Zstandard and LZ4_RAW are read", name)
}
