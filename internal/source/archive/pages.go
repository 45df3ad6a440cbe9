package archive

import (
	"fmt"
	"sync"

	"github.com/pipefs/pipefs/internal/lru"
	"github.com/pipefs/pipefs/internal/source/parquet"
)

// pagesBytes is how much memory inflated pages take between reads.
const pagesBytes = 64 << 20

// pages are inflated pages of Parquet files: one holds many pictures, and is read once for all who read them.
type pages struct {
	mu   sync.Mutex
	kept *lru.Map[pageKey, *once[[]byte]]
}

type pageKey struct {
	file   uint64 // the identity of its first byte
	offset int64
}

// value returns the bytes of a value.
func (p *pages) value(f *file) ([]byte, error) {
	if f.compression == parquet.SnappyPart { // it holds this value, and ends of those around it
		data, err := f.page()
		if err != nil {
			return nil, err
		}
		return data[f.place:][:f.size], nil
	}
	key := pageKey{f.Identity.ID - uint64(f.row), f.offset}
	p.mu.Lock()
	if p.kept == nil {
		p.kept = lru.New[pageKey, *once[[]byte]](pagesBytes, 1<<20)
	}
	o, there := p.kept.Get(key)
	if !there {
		o = &once[[]byte]{}
		p.kept.Put(key, o, 0)
	}
	p.mu.Unlock()
	o.Do(func() {
		if o.value, o.err = f.page(); o.err == nil {
			o.err = f.in.Verify() // only pages of the file that was scanned are kept
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		if o.err != nil || len(o.value) > pagesBytes/2 { // one that is larger would be alone, and the next takes its place
			p.kept.Remove(key)
		} else {
			p.kept.Put(key, o, int64(len(o.value)))
		}
	})
	if o.err != nil {
		return nil, o.err
	}
	return o.value[f.place:][:f.size], nil
}

// page inflates the page, or the part of one, that a value lies in.
func (f *file) page() ([]byte, error) {
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
