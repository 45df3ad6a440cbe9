package loader

import (
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Forget asks the page cache to drop all regular files below dir, after writing
// back what is dirty. It needs no privilege, and drops nothing that somebody has
// mapped.
func Forget(dir string) error {
	return filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		return drop(name, true)
	})
}

// Drop is Forget for files that are not dirty. It does not wait for the disk.
func Drop(names []string) error {
	for _, name := range names {
		if err := drop(name, false); err != nil {
			return err
		}
	}
	return nil
}

func drop(name string, sync bool) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	if sync {
		if err := unix.Fdatasync(int(f.Fd())); err != nil {
			return &fs.PathError{Op: "fdatasync", Path: name, Err: err}
		}
	}
	if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
		return &fs.PathError{Op: "fadvise", Path: name, Err: err}
	}
	return nil
}
