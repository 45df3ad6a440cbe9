package store

import (
	"strings"
	"sync"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/store/vfs"
)

// rotten is a file system with a cache in which every byte of a pack's data is wrong until it is
// forgotten.
type rotten struct{ vfs.FS }

type rottenFile struct {
	vfs.File
	mu        sync.Mutex
	forgotten map[int64]bool // bytes
}

func (r rotten) Open(name string) (vfs.File, error) {
	f, err := r.FS.Open(name)
	if err != nil || !strings.HasSuffix(name, packSuffix) {
		return f, err
	}
	return &rottenFile{File: f, forgotten: map[int64]bool{}}, nil
}

func (f *rottenFile) ReadAt(b []byte, off int64) (int, error) {
	n, err := f.File.ReadAt(b, off)
	size, _ := f.Size()
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range b[:n] {
		if at := off + int64(i); at > headerSize && at < size-trailerSize && !f.forgotten[at] {
			b[i] ^= 1
		}
	}
	return n, err
}

func (f *rottenFile) Forget(off, n int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range n {
		f.forgotten[off+i] = true
	}
}

// What a cache has damaged is read from where it comes from.
func TestForgets(t *testing.T) {
	r := random(t)
	src := newSource()
	src.put("a.jpg", noise(r, 200_000))
	src.put("b.jpg", noise(r, 70_000))
	dir := tempDir(t)
	mustPack(t, dir, src, PackOptions{})
	s, err := Open(dir, Options{Logger: quiet, FS: rotten{vfs.OS}})
	testenv.Must(t, err)
	defer s.Close()
	if corrupt, err := compareStore(s, src); err != nil || corrupt != 0 {
		t.Errorf("%d corrupt, %v", corrupt, err)
	}
}
