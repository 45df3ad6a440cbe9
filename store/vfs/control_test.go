package vfs

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/testenv"
)

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
