package vfs

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/testenv"
)

// TestDirect: any piece of a file, read past the page cache, is what it is.
func TestDirect(t *testing.T) {
	data := make([]byte, 3<<20+1234)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(data)
	name := filepath.Join(t.TempDir(), "pack")
	testenv.Must(t, os.WriteFile(name, data, 0o644))
	f, err := Direct(OS).Open(name)
	testenv.Must(t, err)
	defer f.Close()
	if _, ok := f.(directFile); !ok {
		t.Skip("the file system of the test does not take O_DIRECT")
	}
	if size, err := f.Size(); err != nil || size != int64(len(data)) {
		t.Errorf("%d bytes, %v", size, err)
	}
	var readers sync.WaitGroup
	for seed := range uint64(4) {
		readers.Go(func() {
			r := rand.New(rand.NewPCG(seed, 1))
			for range 200 {
				off := r.IntN(len(data))
				got := make([]byte, r.IntN(1<<21))
				n, err := f.ReadAt(got, int64(off))
				want := data[off:min(len(data), off+len(got))]
				if n != len(want) || !bytes.Equal(got[:n], want) || (err == nil) != (n == len(got)) || err != nil && !errors.Is(err, io.EOF) {
					t.Errorf("%d bytes at %d: %d, %v", len(got), off, n, err)
				}
			}
		})
	}
	readers.Wait()
	for _, off := range []int64{int64(len(data)), int64(len(data)) + 1, 1 << 40} {
		if n, err := f.ReadAt(make([]byte, 10), off); n != 0 || !errors.Is(err, io.EOF) {
			t.Errorf("at %d: %d, %v", off, n, err)
		}
	}
	buf := make([]byte, 200_000)
	if allocs := testing.AllocsPerRun(20, func() {
		if _, err := f.ReadAt(buf, 12345); err != nil {
			t.Fatal(err)
		}
	}); allocs > 1 && !testenv.Race { // the pool may be emptied, and forgets under the race detector
		t.Errorf("%v allocations", allocs)
	}
}

// TestDirectFallsBack: where a file can be opened so and not read so, it is read as
// usual; and what does not exist is not found.
func TestDirectFallsBack(t *testing.T) {
	name := filepath.Join(t.TempDir(), "pack")
	testenv.Must(t, os.WriteFile(name, []byte("hello"), 0o644))
	f, err := os.Open(name)
	testenv.Must(t, err)
	defer f.Close()
	testenv.Must(t, ordinary(int(f.Fd())))
	if flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFL, 0); err != nil || flags&unix.O_DIRECT != 0 {
		t.Errorf("flags %x, %v", flags, err)
	}
	got := make([]byte, 4)
	direct, err := newDirectFile(f)
	testenv.Must(t, err)
	if n, err := direct.ReadAt(got, 1); n != 4 || err != nil || string(got) != "ello" {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := Direct(OS).Open(name + "."); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}
