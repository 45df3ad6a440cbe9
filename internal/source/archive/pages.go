package archive

import (
	"fmt"
	"strconv"
	"sync"

	"golang.org/x/sync/singleflight"

	"github.com/pipefs/pipefs/internal/lru"
	"github.com/pipefs/pipefs/internal/source/parquet"
)

// pagesBytes is how much memory inflated pages take between reads.
const pagesBytes = 64 << 20

// pages are inflated pages of Parquet files: one holds many pictures, and is read once for all who read them.
type pages struct {
	mu     sync.Mutex
	kept   *lru.Map[pageKey, []byte]
	flight singleflight.Group
}

type pageKey struct {
	file   uint64 // the identity of its first byte
	offset int64
}

// value returns the bytes of a value.
func (p *pages) value(f *file) ([]byte, error) {
	inflate := func() (any, error) {
		packed, err := f.load()
		if err != nil {
			return nil, err
		}
		data, err := parquet.Inflate(f.compression, packed, int(f.value.inflated))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name(), err)
		}
		return data, nil
	}
	if f.compression == parquet.SnappyPart { // it holds this value, and ends of those around it
		data, err := inflate()
		if err != nil {
			return nil, err
		}
		return data.([]byte)[f.place:][:f.size], nil
	}
	key := pageKey{f.Identity.ID - uint64(f.row), f.offset}
	data, ok := p.get(key)
	if !ok {
		made, err, _ := p.flight.Do(strconv.FormatUint(key.file, 36)+" "+strconv.FormatInt(key.offset, 36), func() (any, error) {
			if data, ok := p.get(key); ok {
				return data, nil
			}
			data, err := inflate()
			if err == nil {
				// Only pages of the file that was scanned are kept.
				if err = f.in.Verify(); err == nil {
					p.put(key, data.([]byte))
				}
			}
			return data, err
		})
		if err != nil {
			return nil, err
		}
		data = made.([]byte)
	}
	return data[f.place:][:f.size], nil
}

func (p *pages) get(key pageKey) ([]byte, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.kept == nil {
		return nil, false
	}
	return p.kept.Get(key)
}

func (p *pages) put(key pageKey, data []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.kept == nil {
		p.kept = lru.New[pageKey, []byte](pagesBytes, 1<<20)
	}
	if len(data) <= pagesBytes/2 { // else it would be alone, and the next takes its place
		p.kept.Put(key, data, int64(len(data)))
	}
}
