package serve

import (
	"fmt"
	"iter"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/pipefs/pipefs/internal/annotation"
	"github.com/pipefs/pipefs/transcode"
)

// mostTries is how many samples are tried in the place of a bad one.
const mostTries = 64

// Instead yields which of n samples to try in the place of a bad one, in this order: a function of
// the seed, the epoch and the path of the bad sample. All draws of a sample in one epoch are
// replaced by one other sample.
func Instead(d transcode.Draw, n int) iter.Seq[int] {
	return func(yield func(int) bool) {
		if n == 0 {
			return
		}
		d.Repeat = 0
		random, tried := d.Random("sample instead"), map[int]bool{}
		for range mostTries {
			if i := random.Upto(n - 1); !tried[i] && !yield(i) {
				return
			} else {
				tried[i] = true
			}
		}
	}
}

// parts are names of directories that hold parts of a dataset, and no classes.
var parts = []string{"train", "training", "val", "valid", "validation", "test", "testing", "images", "image", "img", "imgs", "jpegimages", "data"}

// targets is whether all samples of a directory have the same target.
type targets struct {
	once sync.Once
	err  error // why that is not known
}

// Replaceable returns why no other sample of its directory may take the place of a sample, or nil:
// the directory has to be that of a class, and nothing in it may be the target of one sample alone.
func (s *Server) Replaceable(name string) error {
	dir := dirOf(name)
	t := remembered(&s.refusals, s.refusals.targets, dir)
	t.once.Do(func() { t.err = s.sameTargets(dir) })
	return t.err
}

func (s *Server) sameTargets(dir string) error {
	if !s.inClass(dir) {
		return fmt.Errorf("%q is not one of several directories of classes, so that another sample may have another label", "/"+dir)
	}
	if sample, file := s.findBeside(dir); file != "" {
		return fmt.Errorf("%s is the target of %s alone", file, sample)
	}
	entries, err := s.List(dir)
	if err != nil {
		return err
	}
	stems, samples := map[string]string{}, []string{}
	for _, e := range entries {
		if e.Dir {
			continue
		} else if s.o.Registry.IsSample(e.Name) {
			samples = append(samples, e.Name)
		} else {
			stems[strings.TrimSuffix(e.Name, path.Ext(e.Name))] = e.Name
		}
	}
	for _, name := range samples {
		for _, stem := range []string{name, strings.TrimSuffix(name, path.Ext(name))} {
			if file := stems[stem]; file != "" {
				return fmt.Errorf("%s is the target of %s alone", path.Join(dir, file), path.Join(dir, name))
			}
		}
	}
	for at := dir; ; at = dirOf(at) {
		for _, name := range []string{"metadata.csv", "metadata.jsonl"} {
			if _, err := s.Stat(path.Join(at, name), false); err == nil {
				return fmt.Errorf("%s has a line for each sample", path.Join(at, name))
			}
		}
		for _, c := range s.surround(at).many {
			for _, name := range samples {
				if slices.Contains(c.pictures, name) {
					return fmt.Errorf("%s has targets of %s", c.file, path.Join(dir, name))
				}
			}
		}
		if at == "" {
			return nil
		}
	}
}

// inClass reports whether a directory, or one above it, is one of several beside each other that
// may be classes.
func (s *Server) inClass(dir string) bool {
	class := func(name string) bool {
		plain := strings.TrimRight(strings.ToLower(name), "0123456789")
		return !slices.Contains(parts, plain) && !annotation.IsDirectory(name)
	}
	for at := dir; at != ""; at = dirOf(at) {
		if !class(path.Base(at)) {
			continue
		}
		entries, _ := s.List(dirOf(at))
		n := 0
		for _, e := range entries {
			if e.Dir && class(e.Name) {
				n++
			}
		}
		if n > 1 {
			return true
		}
	}
	return false
}
