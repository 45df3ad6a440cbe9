package views

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/pipefs/pipefs/bench/loader"
	"github.com/pipefs/pipefs/bench/mssim"
	"github.com/pipefs/pipefs/transcode"
)

// How many pictures are compared, and for how long.
const (
	compared    = 8
	compareTime = 5 * time.Second
)

// sound leaves out samples that no view shows as pictures, since most loaders would end
// there. A store may lack the originals.
func (r *runner) sound(ctx context.Context, files []string) (_ []string, err error) {
	r.tell("decoding the samples once, to leave out broken ones")
	var dirs []string
	if r.Plain != "" {
		dirs = append(dirs, r.Plain)
	} else {
		m, err := r.mount(ctx, r.Source, true)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, m.Close()) }()
		for _, s := range r.subjects {
			dirs = append(dirs, s.dir(r, m))
		}
	}
	decode := func(name string) (err error) {
		for _, dir := range dirs {
			var b []byte
			if b, err = r.readFile(filepath.Join(dir, name)); err == nil && !bytes.HasPrefix(b, arrayMagic) {
				_, err = r.Registry.Decode(ctx, b)
			}
			if err == nil {
				return nil
			}
		}
		return err
	}
	faults := make([]error, len(files))
	if err := loader.Each(ctx, 0, len(files), func(_ context.Context, _, i int) error {
		faults[i] = decode(files[i])
		return nil
	}); err != nil {
		return nil, err
	}
	var good []string
	r.report.LeftOut, r.report.Broken = 0, ""
	for i, name := range files {
		switch {
		case faults[i] == nil:
			good = append(good, name)
		case r.report.LeftOut == 0:
			r.report.Broken = fmt.Sprintf("%s: %v", name, faults[i])
			fallthrough
		default:
			r.report.LeftOut++
		}
	}
	if len(good) == 0 {
		return nil, fmt.Errorf("none of %d samples can be decoded: %s", len(files), r.report.Broken)
	}
	return good, nil
}

// arrayMagic begins .npy files, which are what a loader gets.
var arrayMagic = []byte("\x93NUMPY")

// readFile reads a file that is no longer than samples may be.
func (r *runner) readFile(name string) ([]byte, error) {
	info, err := os.Stat(name)
	if err == nil {
		err = r.Registry.Limits().CheckFile(info.Size())
	}
	if err != nil {
		return nil, err
	}
	return os.ReadFile(name)
}

// inspect finds out what the views show, without measuring: whether their pixels are
// those of the source, and if not, how much they look like them.
func (r *runner) inspect(ctx context.Context) (err error) {
	r.tell("comparing the views' pixels with the source's")
	m, err := r.mount(ctx, r.Source, true)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	sources := map[string]*transcode.Pixels{}
	decode := func(view, name string) (*transcode.Pixels, error) {
		b, err := r.readFile(filepath.Join(m.Dir, view, name))
		if err != nil {
			return nil, err
		}
		return r.Registry.Decode(ctx, b)
	}
	until := time.Now().Add(compareTime)
	for _, s := range r.subjects {
		if s.plain != "" {
			continue
		}
		if err := s.identify(r, m.Dir); err != nil {
			s.fail(err)
			continue
		}
		if s.Same || s.Random {
			continue
		}
		sum, n := 0.0, 0
		for _, name := range loader.Evenly(r.files, compared) {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if n > 0 && time.Now().After(until) {
				break
			}
			if sources[name] == nil {
				if sources[name], err = decode(transcode.Original, name); err != nil {
					continue // a store may have no originals, and any sample may be broken
				}
			}
			px, err := decode(s.View, name)
			if err != nil {
				continue
			}
			// What has another size or mode cannot be compared.
			if similarity, err := mssim.Compare(px, sources[name]); err == nil {
				sum, n = sum+similarity, n+1
			}
		}
		if n > 0 {
			s.MSSSIM = sum / float64(n)
		}
	}
	return nil
}

// identify finds out which pipeline a subject shows. A link of a mount leads to a view.
func (s *subject) identify(r *runner, mnt string) error {
	spec := s.View
	if target, err := os.Readlink(filepath.Join(mnt, s.View)); err == nil {
		spec, s.Path = filepath.Base(target), filepath.Base(target)
	}
	p, err := r.Registry.ParseRandom(spec)
	if err != nil {
		return err
	}
	if r.Cannot != nil {
		if why := r.Cannot(p); why != "" {
			return errors.New(why)
		}
	}
	s.Same = true
	for _, step := range p.Steps() {
		if step.Kind.Split != nil {
			s.Same = s.Same && step.Arg == step.Kind.Max
		} else if !r.Turned || step.Kind.Name != "upright" {
			s.Same = s.Same && step.Kind.Effect == transcode.Exact
		}
	}
	return nil
}

// forgetSource makes the page cache drop what a view is made from, and the view.
func (r *runner) forgetSource(m *Mount, s *subject) error {
	if s.plain != "" {
		return forget(s.plain, r.list())
	}
	var err error
	if r.Mount != "" && !s.Random { // others are mounted anew, and epochs are new
		err = forget(filepath.Join(m.Dir, s.View), r.list())
	}
	if r.Plain != "" {
		err = errors.Join(err, forget(r.Plain, r.list()))
	}
	if s.Split != nil && s.Split.Stored {
		err = errors.Join(err, loader.Forget(s.source))
	} else if strings.Contains(r.Source, "://") {
		// each mount has a cache of its own, which is empty
	} else if r.Prepared || len(r.Archives) > 0 {
		for _, at := range r.held() {
			err = errors.Join(err, loader.Forget(at))
		}
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
