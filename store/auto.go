package store

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/pipefs/pipefs/store/vfs"
)

const autoName = "AUTO"

// Auto is what was measured to serve a store's dataset best.
type Auto struct {
	// View is the canonical spec of a view.
	View string `json:"view"`
	// Share of the view's files that are materialized, 0 to 1: the mix.
	Share float64 `json:"share"`
	// Host and Time say where and when it was measured.
	Host string    `json:"host"`
	Time time.Time `json:"time"`
}

// ReadAuto returns what WriteAuto left in a store; ErrNotFound where it was never
// called.
func ReadAuto(dir string) (Auto, error) { return readAuto(vfs.OS, dir) }

func readAuto(fsys vfs.FS, dir string) (Auto, error) {
	var a Auto
	_, err := readText(fsys, filepath.Join(dir, autoName), &a)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%s: nothing was measured: %w", dir, ErrNotFound)
	}
	return a, err
}

// Auto is what WriteAuto left in the store; ErrNotFound where it was never called.
func (s *Store) Auto() (Auto, error) { return readAuto(s.o.FS, s.dir) }

// WriteAuto notes in a store what serves it best.
func WriteAuto(dir string, a Auto) error {
	text, err := encodeText(a)
	if err != nil {
		return err
	}
	return replaceFile(vfs.OS, filepath.Join(dir, autoName), text)
}
