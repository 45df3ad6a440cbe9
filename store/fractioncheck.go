package store

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"

	"github.com/pipefs/pipefs/store/vfs"
)

// fractions checks every fraction. A problem of one is no problem of the store:
// it holds copies only.
func (c *checker) fractions() error {
	names, err := c.o.FS.List(filepath.Join(c.dir, fractionsName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, spec := range names {
		if checkSpec(spec) != nil {
			continue
		}
		if err := c.fraction(spec); err != nil {
			return err
		}
	}
	return nil
}

func (c *checker) fraction(spec string) error {
	dir := path.Join(fractionsName, spec)
	first := len(c.problems)
	info, err := readFraction(&c.o, filepath.Join(c.dir, dir))
	if errors.Is(err, fs.ErrNotExist) {
		c.add(Orphaned, dir, "", 0, errors.New("an interrupted run left it: no file "+fractionName))
	} else if err := c.found(path.Join(dir, fractionName), err); err != nil {
		return err
	}
	sealed, unfinished, err := listPacks(c.o.FS, filepath.Join(c.dir, dir))
	if errors.Is(err, fs.ErrNotExist) { // removed meanwhile
		c.problems = c.problems[:first]
		return nil
	}
	if err != nil {
		return err
	}
	for _, n := range sealed {
		if err := c.fractionPack(dir, n); err != nil {
			return err
		}
	}
	c.leftovers(dir, unfinished)
	again := fmt.Sprintf("pipefs materialize --verify %s %s", c.dir, spec)
	if info.Share > 0 {
		again += fmt.Sprintf(" --fraction %g", info.Share)
	} else {
		again += " with its --fraction"
	}
	for i := range c.problems[first:] {
		p := &c.problems[first+i]
		p.Cause = fmt.Errorf("%w; it is only a copy: %s makes it again", p.Cause, again)
	}
	return nil
}

// fractionPack checks a pack of a fraction, which may be removed at any moment.
func (c *checker) fractionPack(dir string, n packName) error {
	name := path.Join(dir, n.String())
	f, err := c.o.FS.Open(filepath.Join(c.dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	return c.records(f, name, byAge(n), func([]Sample) {})
}

// leftovers reports unfinished packs in a directory, unless somebody is writing.
func (c *checker) leftovers(dir string, unfinished []packName) {
	if len(unfinished) == 0 {
		return
	}
	lock, err := c.o.FS.Lock(filepath.Join(c.dir, lockName))
	if errors.Is(err, vfs.ErrLocked) {
		return
	}
	if err == nil {
		defer lock.Close()
	}
	for _, n := range unfinished {
		c.add(Orphaned, path.Join(dir, n.String()), "", 0,
			errors.New("an interrupted run left it; the same command goes on with it"))
	}
}
