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
	"time"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/testenv"
)

// What is not a regular file is refused: nothing waits for the other end of a FIFO,
// and nothing is made or locked where a link leads.
func TestOnlyRegularFiles(t *testing.T) {
	dir := t.TempDir()
	elsewhere := filepath.Join(dir, "elsewhere")
	names := map[string]func(name string) error{
		"fifo":          func(name string) error { return unix.Mkfifo(name, 0o666) },
		"link":          func(name string) error { return os.Symlink(filepath.Join(dir, "file"), name) },
		"link to none":  func(name string) error { return os.Symlink(elsewhere, name) },
		"socket":        func(name string) error { return unix.Mknod(name, unix.S_IFSOCK|0o666, 0) },
		"link to /dev":  func(name string) error { return os.Symlink("/dev/zero", name) },
		"link to a dir": func(name string) error { return os.Symlink(dir, name) },
	}
	testenv.Must(t, os.WriteFile(filepath.Join(dir, "file"), []byte("content"), 0o644))
	for what, make := range names {
		name := filepath.Join(dir, what)
		if what[:4] == "link" && what != "link" {
			name = filepath.Join(dir, filepath.Base(what))
		}
		testenv.Must(t, make(name))
		for op, try := range map[string]func() (any, error){
			"open":       func() (any, error) { return OS.Open(name) },
			"direct":     func() (any, error) { return Direct(OS).Open(name) },
			"open write": func() (any, error) { return OS.OpenWrite(name) },
			"size":       func() (any, error) { return OS.Size(name) },
			"lock":       func() (any, error) { return OS.Lock(name) },
		} {
			done := time.AfterFunc(time.Minute, func() { panic(what + ": " + op + " hangs") })
			if got, err := try(); !errors.Is(err, ErrNotRegular) {
				t.Errorf("%s: %s: %v, %v", what, op, got, err)
			}
			done.Stop()
		}
	}
	for op, try := range map[string]func() error{
		"list": func() error { _, err := OS.List(filepath.Join(dir, "fifo")); return err },
		"sync": func() error { return OS.SyncDir(filepath.Join(dir, "fifo")) },
	} {
		if err := try(); !errors.Is(err, unix.ENOTDIR) {
			t.Errorf("%s of a FIFO: %v", op, err)
		}
	}
	if _, err := os.Lstat(elsewhere); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file was made where a link leads: %v", err)
	}
}

// TestClosedMeanwhile: what is done with a descriptor is done with its file, though the file is closed meanwhile
// and others are opened.
func TestClosedMeanwhile(t *testing.T) {
	dir := t.TempDir()
	f, err := os.Create(filepath.Join(dir, "file"))
	testenv.Must(t, err)
	var want, got unix.Stat_t
	testenv.Must(t, unix.Stat(f.Name(), &want))
	testenv.Must(t, Control(f, func(fd int) error {
		testenv.Must(t, f.Close())
		for range 3 {
			other, err := os.Open(dir)
			testenv.Must(t, err)
			defer other.Close()
		}
		return unix.Fstat(fd, &got)
	}))
	if got.Ino != want.Ino {
		t.Errorf("inode %d, want %d", got.Ino, want.Ino)
	}
	if Flock(f, unix.LOCK_EX) == nil {
		t.Error("a file that is closed was locked")
	}
}

// TestUsedWhileClosed: the race detector sees no descriptor that is used while its file is closed.
func TestUsedWhileClosed(t *testing.T) {
	name := filepath.Join(t.TempDir(), "pack")
	testenv.Must(t, os.WriteFile(name, make([]byte, 10_000), 0o644))
	for _, fs := range []FS{OS, Direct(OS)} {
		f, err := fs.Open(name)
		testenv.Must(t, err)
		lock, err := OS.Lock(name + ".lock")
		testenv.Must(t, err)
		var users sync.WaitGroup
		users.Go(func() { f.(Advised).Scattered() })
		users.Go(func() { f.(Advised).Fetch(0, 10_000) })
		users.Go(func() { _, _ = f.ReadAt(make([]byte, 100), 5) })
		users.Go(func() { testenv.Must(t, f.Close()) })
		for range 2 {
			users.Go(func() { _ = lock.Close() })
		}
		users.Wait()
	}
}

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
