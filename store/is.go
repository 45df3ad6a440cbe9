package store

import (
	"errors"
	"io/fs"

	"github.com/pipefs/pipefs/store/vfs"
)

// Is reports whether dir is a store, be it whole, damaged or of another version.
// The error is one of reading.
func Is(dir string) (bool, error) { return IsIn(vfs.OS, dir) }

// IsIn is [Is] for a directory of another file system than that of the operating system.
func IsIn(fsys vfs.FS, dir string) (bool, error) {
	_, err := readFormat(fsys, dir)
	switch {
	case err == nil, errors.Is(err, ErrCorrupt), errors.Is(err, ErrVersion):
		return true, nil
	case errors.Is(err, ErrNotStore), errors.Is(err, fs.ErrNotExist):
		return false, nil
	}
	return false, err
}
