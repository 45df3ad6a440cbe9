package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"golang.org/x/sys/unix"

	sorted "github.com/pipefs/pipefs/internal/index"
	"github.com/pipefs/pipefs/store/vfs"
)

const maxTextFile = 64 << 20

// readText reads such a file into v and returns its content.
func readText(fsys vfs.FS, name string, v any) ([]byte, error) {
	b, err := readAll(fsys, name, maxTextFile)
	if err != nil {
		return nil, err
	}
	return b, DecodeText(name, b, v)
}

// DecodeText reads into v a small file of a store, which [sorted.Seal] made. The error is of the class ErrCorrupt; name
// is that of the file.
func DecodeText(name string, b []byte, v any) error {
	if err := sorted.Unseal(b, v); err != nil {
		return &CorruptError{Path: filepath.Base(name), Cause: err}
	}
	return nil
}

func readAll(fsys vfs.FS, name string, limit int64) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	if size > limit {
		return nil, &CorruptError{Path: filepath.Base(name), Cause: fmt.Errorf("%d bytes, over the limit of %d", size, limit)}
	}
	b := make([]byte, size)
	if err := readFull(f, b, 0); err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return b, nil
}

// replaceFile makes name hold b, durably, or leaves it as it was.
func replaceFile(fsys vfs.FS, name string, b []byte) error {
	err := writeThenName(fsys, name, func(f vfs.File) error {
		_, err := f.WriteAt(b, 0)
		return err
	})
	if err == nil {
		err = fsys.SyncDir(filepath.Dir(name))
	}
	return err
}

// writeThenName makes a file that has its name only when it is whole and durable. The caller
// syncs the directory.
func writeThenName(fsys vfs.FS, name string, write func(vfs.File) error) error {
	tmp := name + tmpSuffix
	if err := removeAny(fsys, tmp); err != nil {
		return err
	}
	f, err := fsys.Create(tmp)
	if err != nil {
		return err
	}
	if err = write(f); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = fsys.Rename(tmp, name)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", name, err), removeAny(fsys, tmp))
	}
	return nil
}

// removeAny removes a file if it is there.
func removeAny(fsys vfs.FS, name string) error {
	if err := fsys.Remove(name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// formatFile says what the directory is and how it was packed last.
type formatFile struct {
	Magic        string `json:"magic"`
	Version      int    `json:"version"`
	Dataset      string `json:"dataset"`
	RecordImages int    `json:"record_images"`
	Order        Order  `json:"order"`
	Seed         uint64 `json:"seed"`
}

const (
	formatName    = "FORMAT"
	formatMagic   = "pipefs store"
	formatVersion = 2
	packsName     = "packs"
	plansName     = "plans"
	lockName      = "lock"
)

// lockDir takes the lock of the one writer of a directory.
func lockDir(fsys vfs.FS, dir string) (io.Closer, error) {
	lock, err := fsys.Lock(filepath.Join(dir, lockName))
	if errors.Is(err, vfs.ErrLocked) {
		err = fmt.Errorf("%s: %w", dir, ErrLocked)
	}
	return lock, err
}

func hasCurrent(dir string) bool {
	_, err := readText(vfs.OS, filepath.Join(dir, currentName), &currentFile{})
	return err == nil
}

// errFormatGone: the rest of a store is there.
var errFormatGone = errors.New("the file is missing from a store; pipefs pack of the same dataset writes it again")

func readFormat(fsys vfs.FS, dir string) (formatFile, error) {
	var f formatFile
	_, err := readText(fsys, filepath.Join(dir, formatName), &f)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENOTDIR):
		if fsys == vfs.OS && hasCurrent(dir) { // in a bucket, to look for more would be to list it
			return f, fmt.Errorf("%s: %w", dir, &CorruptError{Path: formatName, Cause: errFormatGone})
		}
		return f, fmt.Errorf("%s: %w: it has no file %s", dir, ErrNotStore, formatName)
	case err != nil:
		return f, fmt.Errorf("%s: %w", dir, err)
	case f.Magic != formatMagic:
		return f, fmt.Errorf("%s: %w: %s is of something else", dir, ErrNotStore, formatName)
	case f.Version < formatVersion:
		return f, fmt.Errorf("%s: a store of format %d, which this pipefs does not read: %w; pack the dataset again into another directory", dir, f.Version, ErrVersion)
	case f.Version > formatVersion:
		return f, fmt.Errorf("%s: a store of format %d, and this pipefs reads format %d: %w; use a newer pipefs", dir, f.Version, formatVersion, ErrVersion)
	}
	return f, nil
}
