package views

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/pipefs/pipefs/bench/loader"
	"github.com/pipefs/pipefs/bench/mounted"
)

// forgetSource makes the page cache drop what a view is made from, and the view.
func (r *runner) forgetSource(m *mounted.Mount, s *subject) error {
	var err error
	if r.Mount != "" && !s.Random { // others are mounted anew, and epochs are new
		err = forget(filepath.Join(m.Dir, s.View), r.list())
	}
	if r.Plain != "" {
		err = errors.Join(err, forget(r.Plain, r.list()))
	}
	if strings.Contains(r.Source, "://") {
		// each mount has a cache of its own, which is empty
	} else if r.Prepared {
		err = errors.Join(err, loader.Forget(r.Source))
	} else if r.Plain == "" {
		err = errors.Join(err, forget(r.Source, r.list()))
	}
	return errors.Join(err, loader.Forget(r.kept()))
}

// forget makes the page cache drop files below dir; nil are all.
func forget(dir string, files []string) error {
	if files == nil {
		return loader.Forget(dir)
	}
	for _, name := range files {
		if err := loader.Forget(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// weighed is how many files of a view are looked at for the size of all.
const weighed = 512

// sizeOfView is about how many bytes the files of a view have together.
func sizeOfView(dir string, files []string) (int64, error) {
	some := loader.Evenly(files, weighed)
	var total int64
	for _, name := range some {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			return 0, err
		}
		total += info.Size()
	}
	return int64(float64(total) / float64(len(some)) * float64(len(files))), nil
}

// sizeOf is the bytes of all files below dir that a mount has kept.
func sizeOf(dir string) (total int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		info, err := e.Info()
		if err == nil {
			total += info.Size()
		}
		return err
	})
	return total, err
}
