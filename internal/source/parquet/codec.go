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

// deltas reads n numbers that are encoded as deltas, and returns what stands behind them.
func deltas(b []byte, n int) ([]int64, []byte, error) {
	number := func() uint64 {
		v, k := binary.Uvarint(b)
		if k <= 0 {
			b = nil
			return 0
		}
		b = b[k:]
		return v
	}
	signed := func() int64 {
		v := number()
		return int64(v>>1) ^ -int64(v&1)
	}
	block, parts, total, last := number(), number(), number(), signed()
	if total != uint64(n) || parts == 0 || block > 1<<16 || block%parts != 0 || block/parts%8 != 0 || block == 0 {
		return nil, nil, errPage
	}
	each := int(block / parts)
	if n > 1 && (n-1)/int(block) > len(b)/2 { // each block has a byte of a number and a width at least
		return nil, nil, errPage
	}
	all := make([]int64, 0, n)
	if n > 0 {
		all = append(all, last)
	}
	for len(all) < n {
		least := signed()
		if uint64(len(b)) < parts {
			return nil, nil, errPage
		}
		widths := b[:parts]
		b = b[parts:]
		for _, width := range widths {
			if len(all) == n {
				break
			}
			size := int(width) * each / 8
			if width > 64 || size > len(b) {
				return nil, nil, errPage
			}
			for i := range min(each, n-len(all)) {
				last += least + int64(bitsAt(b, i*int(width), int(width)))
				all = append(all, last)
			}
			b = b[size:]
		}
	}
	return all, b, nil
}

// bitsAt reads a number of at most 64 bits.
func bitsAt(b []byte, at, width int) (v uint64) {
	for k := 0; k < width; {
		from := (at + k) % 8
		n := min(8-from, width-k)
		v |= uint64(b[(at+k)/8]>>from&(1<<n-1)) << k
		k += n
	}
	return v
}

// lengths finds n values whose lengths stand before all of them.
func lengths(data []byte, at, n int) ([]span, error) {
	sizes, rest, err := deltas(data[at:], n)
	if err != nil {
		return nil, err
	}
	all := make([]span, n)
	at = len(data) - len(rest)
	for i, size := range sizes {
		if size < 0 || size > int64(len(data)-at) {
			return nil, errPage
		}
		all[i] = span{at, int(size)}
		at += int(size)
	}
	return all, nil
}

// maxMade is the most bytes of values of a page that repeat those before them.
const maxMade = 64 << 20

// suffixes reads n values of which each begins as the one before it.
func suffixes(b []byte, n int) (*page, []span, error) {
	begins, rest, err := deltas(b, n)
	if err != nil {
		return nil, nil, err
	}
	ends, err := lengths(rest, 0, n)
	if err != nil {
		return nil, nil, err
	}
	p := &page{made: true}
	all := make([]span, n)
	var last span
	for i, begin := range begins {
		if begin < 0 || begin > int64(last.n) || begin+int64(ends[i].n) > maxMade-int64(len(p.data)) {
			return nil, nil, errPage
		}
		at := len(p.data)
		p.data = append(p.data, p.data[last.at:last.at+int(begin)]...)
		p.data = append(p.data, rest[ends[i].at:ends[i].at+ends[i].n]...)
		last = span{at, len(p.data) - at}
		all[i] = last
	}
	return p, all, nil
}
