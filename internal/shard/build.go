package shard

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/pipefs/pipefs/store/vfs"
)

// buildDir makes an empty directory, and removes those of workers that were killed.
func buildDir(parent string) (dir string, remove func(), err error) {
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return "", nil, err
	}
	const begin = "shard-"
	old, err := filepath.Glob(filepath.Join(parent, begin+"*"))
	if err != nil {
		return "", nil, err
	}
	const name = "lock"
	for _, dir := range old {
		if _, err := os.Lstat(filepath.Join(dir, name)); err != nil {
			continue // it is just being made
		}
		if lock, err := vfs.OS.Lock(filepath.Join(dir, name)); err == nil {
			_ = os.RemoveAll(dir) // another process may do the same
			_ = lock.Close()
		}
	}
	for {
		if dir, err = os.MkdirTemp(parent, begin); err != nil {
			return "", nil, err
		}
		lock, err := vfs.OS.Lock(filepath.Join(dir, name))
		if err == nil {
			return dir, func() { _ = os.RemoveAll(dir); _ = lock.Close() }, nil
		}
		if !errors.Is(err, vfs.ErrLocked) { // else another one took it for one that was left
			return "", nil, errors.Join(err, os.RemoveAll(dir))
		}
	}
}

// passing is a file system for what is soon put elsewhere, and made again after a crash: nothing is synced.
type passing struct{ vfs.FS }

// Create implements [vfs.FS].
func (p passing) Create(name string) (vfs.File, error) {
	f, err := p.FS.Create(name)
	return passingFile{f}, err
}

// SyncDir implements [vfs.FS].
func (passing) SyncDir(string) error { return nil }

type passingFile struct{ vfs.File }

// Sync implements [vfs.File].
func (passingFile) Sync() error { return nil }
