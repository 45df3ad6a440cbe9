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
	"testing/synctest"
	"time"

	"github.com/pipefs/pipefs/internal/testenv"
)

// advisedFile is a file in memory that counts what it is asked.
type advisedFile struct {
	File
	data               []byte
	scattered, fetched int
}

func (f *advisedFile) ReadAt(p []byte, off int64) (int, error) {
	return bytes.NewReader(f.data).ReadAt(p, off)
}
func (f *advisedFile) Scattered()            { f.scattered++ }
func (f *advisedFile) Fetch(off, n int64)    { f.fetched++ }
func (f *advisedFile) Ahead() (int64, int64) { return 1, 1 }
func (f *advisedFile) Size() (int64, error)  { return int64(len(f.data)), nil }
func (f *advisedFile) Close() error          { return nil }

type oneFile struct {
	FS
	f File
}

func (o oneFile) Open(string) (File, error)      { return o.f, nil }
func (o oneFile) OpenWrite(string) (File, error) { return o.f, nil }

// TestThrottled: reads take as long as the limits say, on a clock that goes by
// itself, whoever reads and in whatever pieces.
func TestThrottled(t *testing.T) {
	const size = 1 << 20
	for _, c := range []struct {
		name         string
		bytes, reads int64 // a second
		readers      int
		block        int
		want         time.Duration // that reading size takes, the burst not counted
	}{
		{"bytes, large reads", size, 0, 1, size, time.Second},
		{"bytes, small reads", size, 0, 1, 4096, time.Second},
		{"bytes, many readers", size, 0, 8, 4096, time.Second},
		{"reads", 0, 64, 1, 4096, 4 * time.Second},
		{"reads, many readers", 0, 64, 8, 4096, 4 * time.Second},
		{"few reads", 0, 2, 1, size / 8, 4 * time.Second},
		{"both, bytes are less", size / 8, 1000, 2, 4096, 8 * time.Second},
		{"both, reads are less", 100 * size, 64, 2, 4096, 4 * time.Second},
		{"hardly any", 100, 0, 1, size, time.Duration(size) * time.Second / 100},
		{"hardly a limit", 1e18, 1e9, 1, 4096, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				inner := &advisedFile{data: make([]byte, size)}
				fsys := Throttled(oneFile{f: inner}, NewBucket(c.bytes, c.reads))
				f, err := fsys.Open("")
				testenv.Must(t, err)
				pass := func() time.Duration {
					began := time.Now()
					var group sync.WaitGroup
					for r := range c.readers {
						group.Go(func() {
							buf := make([]byte, c.block)
							for off := r * c.block; off < size; off += c.readers * c.block {
								if _, err := f.ReadAt(buf, int64(off)); err != nil {
									t.Error(err)
								}
							}
						})
					}
					group.Wait()
					return time.Since(began)
				}
				for range 3 {
					// A pause never saves up more than the burst.
					time.Sleep(time.Hour)
					got := pass()
					if got > c.want+time.Millisecond || got < c.want-burst-time.Millisecond {
						t.Errorf("took %v of %v", got, c.want)
					}
				}
				// Without a pause there is no burst.
				if got := pass(); got < c.want-time.Millisecond && c.want > 0 {
					t.Errorf("without a pause it took %v of %v", got, c.want)
				}
			})
		})
	}
}

// TestThrottledFiles: bytes and errors are those of the file; what would read ahead
// does not get by; every way to open a file is limited; no limit leaves all as it is.
func TestThrottledFiles(t *testing.T) {
	if NewBucket(0, 0) != nil || Throttled(OS, nil) != OS {
		t.Error("no limit is a limit")
	}
	NewBucket(0, 0).Done(NewBucket(0, 0).Begin(), 1<<30)

	limit := NewBucket(1e12, 1e6)
	inner := &advisedFile{data: make([]byte, 10)}
	fsys := Throttled(oneFile{f: inner}, limit)
	for _, open := range []func(string) (File, error){fsys.Open, fsys.OpenWrite} {
		f, err := open("")
		testenv.Must(t, err)
		if _, ok := f.(*throttledFile); !ok {
			t.Errorf("%T is not limited", f)
		}
		a := f.(Advised)
		a.Scattered()
		a.Fetch(0, 10)
	}
	if inner.scattered != 2 || inner.fetched != 0 {
		t.Errorf("told %d times of what comes, %d times to fetch it", inner.scattered, inner.fetched)
	}

	name := filepath.Join(t.TempDir(), "f")
	data := make([]byte, 100_000)
	_, _ = rand.NewChaCha8([32]byte{2}).Read(data)
	for what, base := range map[string]FS{"usual": OS, "direct": Direct(OS)} {
		fsys := Throttled(base, limit)
		if _, err := fsys.Open(name); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: %v", what, err)
		}
		w, err := fsys.Create(name)
		testenv.Must(t, err)
		if _, ok := w.(*throttledFile); !ok {
			t.Errorf("%s: %T is not limited", what, w)
		}
		if _, err := w.WriteAt(data, 0); err != nil {
			t.Fatal(err)
		}
		testenv.Must(t, errors.Join(w.Sync(), w.Close()))
		f, err := fsys.Open(name)
		testenv.Must(t, err)
		got := make([]byte, 5000)
		if n, err := f.ReadAt(got, 99_000); n != 1000 || !errors.Is(err, io.EOF) || !bytes.Equal(got[:n], data[99_000:]) {
			t.Errorf("%s: %d bytes at the end, %v", what, n, err)
		}
		if size, err := f.Size(); size != int64(len(data)) || err != nil {
			t.Errorf("%s: %d bytes, %v", what, size, err)
		}
		testenv.Must(t, errors.Join(f.Close(), fsys.Remove(name)))
	}

	f, err := fsys.Open("")
	testenv.Must(t, err)
	plain := testing.AllocsPerRun(100, func() { _, _ = inner.ReadAt(data[:10], 0) })
	if allocs := testing.AllocsPerRun(100, func() { _, _ = f.ReadAt(data[:10], 0) }); allocs > plain {
		t.Errorf("%v allocations a read, %v without a limit", allocs, plain)
	}
}
