package bucket

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pipefs/pipefs/store/blob"
)

// memory is a place in memory that counts what is asked of it.
type memory struct {
	blob.Objects
	mu           sync.Mutex
	data         map[string]string
	version      map[string]int
	names        []string // sorted; nil after a change
	lists, reads atomic.Int64
	page         int
}

func newMemory(data map[string]string) *memory {
	return &memory{data: data, version: map[string]int{}, page: 1000}
}

func (m *memory) String() string { return "s3://bucket/data/" }

func (m *memory) put(name, data string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.data[name] = data
	m.version[name]++
	m.names = nil
}

func (m *memory) info(name string) blob.Info {
	return blob.Info{Name: name, Size: int64(len(m.data[name])), Version: blob.Version(fmt.Sprintf("%q.%d", name, m.version[name])),
		Modified: time.Unix(1_700_000_000+int64(m.version[name]), 5e6)}
}

func (m *memory) List(_ context.Context, prefix string, deep bool) iter.Seq2[[]blob.Info, error] {
	return func(yield func([]blob.Info, error) bool) {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.names == nil {
			for name := range m.data {
				m.names = append(m.names, name)
			}
			slices.Sort(m.names)
		}
		var page []blob.Info
		asked := false
		at, _ := slices.BinarySearch(m.names, prefix)
		for ; at < len(m.names) && strings.HasPrefix(m.names[at], prefix); at++ {
			name := m.names[at]
			if end := strings.IndexByte(name[len(prefix):], '/'); !deep && end >= 0 {
				dir := name[:len(prefix)+end]
				if len(page) == 0 || !page[len(page)-1].Dir || page[len(page)-1].Name != dir {
					page = append(page, blob.Info{Name: dir, Dir: true})
				}
				next, _ := slices.BinarySearch(m.names, dir+"0")
				at = next - 1
			} else {
				page = append(page, m.info(name))
			}
			if len(page) == m.page {
				m.lists.Add(1)
				if asked = true; !yield(page, nil) {
					return
				}
				page = nil
			}
		}
		if len(page) > 0 || !asked {
			m.lists.Add(1)
			yield(page, nil)
		}
	}
}

func (m *memory) ReadAt(_ context.Context, name string, v blob.Version, b []byte, off int64) error {
	m.reads.Add(1)
	m.mu.Lock()
	defer m.mu.Unlock()
	data, ok := m.data[name]
	switch {
	case !ok:
		return &fs.PathError{Op: "get", Path: name, Err: fs.ErrNotExist}
	case m.info(name).Version != v:
		return fmt.Errorf("%s: %w", name, blob.ErrChanged)
	case off > int64(len(data)) || copy(b, data[off:]) < len(b):
		return io.ErrUnexpectedEOF
	}
	return nil
}

func openPlace(t testing.TB, place blob.Objects, o Options) *Bucket {
	t.Helper()
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	b, err := Open(t.Context(), place, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}
