package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pipefs/pipefs/internal/exit"
	"github.com/pipefs/pipefs/internal/mountd"
	"github.com/pipefs/pipefs/internal/mounts"
	"github.com/pipefs/pipefs/internal/serve"
	"github.com/pipefs/pipefs/internal/source"
	"github.com/pipefs/pipefs/store"
	"github.com/pipefs/pipefs/transcode"
)

// input is a dataset or a store, opened to be looked at.
type input struct {
	path    string            // absolute
	dataset *source.Directory // nil for a store
	store   *store.Store      // nil for a dataset
	tree    source.Tree
}

// openSource opens whichever of the two is at path.
func openSource(env *environ, path string) (*input, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if err := statSource(path); err != nil {
		return nil, exit.With(exit.System, err)
	}
	s, err := store.Open(path, store.Options{Logger: quiet(env)})
	if err == nil {
		return &input{path: path, store: s, tree: serve.StoreTree(s)}, nil
	}
	if !errors.Is(err, store.ErrNotStore) {
		return nil, fmt.Errorf("store %s: %w", path, err)
	}
	d, err := source.Open(path, source.Options{})
	if err != nil {
		return nil, err
	}
	return &input{path: path, dataset: d, tree: d}, nil
}

// statSource says what is wrong with a path that is to be a dataset or a store.
func statSource(path string) error {
	info, err := mounts.Stat(path)
	if err == nil {
		err = mounts.Probe(path)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("there is no dataset or store at %s", path)
	case mounts.Dead(err):
		how := "umount -l " + path
		if abs, err := filepath.Abs(path); err == nil {
			if m, err := mounts.Holding(abs); err == nil && m != nil && m.Ours() {
				how = "pipefs umount " + m.Mountpoint
			}
		}
		return fmt.Errorf("%s lies in a mount whose daemon is gone; unmount that first: %s", path, how)
	case err != nil:
		return fmt.Errorf("dataset or store: %w", err)
	case !info.IsDir():
		return fmt.Errorf("%s is not a directory; a dataset is one, and a store is one", path)
	}
	return nil
}

// registry knows all formats and steps, and JPEG files as the store has them.
func (s *input) registry(l transcode.Limits) *transcode.Registry {
	return mountd.Registry(l, s.store, nil)
}

// producer makes the files of views, without any mount. It is closed before the source.
func (s *input) producer(env *environ, r *transcode.Registry, roles transcode.Roles) (*serve.Server, error) {
	return serve.New(serve.Options{Registry: r, Roles: roles, Source: s.tree, Dataset: s.dataset, Store: s.store, Log: quiet(env)})
}

func (s *input) close() {
	if s.store != nil {
		s.store.Close()
	}
	if s.dataset != nil {
		s.dataset.Close()
	}
}

// gaps are those of the usual views, and others.
func (s *input) gaps(env *environ, l transcode.Limits, others ...string) (*mountd.Gaps, error) {
	r := s.registry(l)
	p, err := s.producer(env, r, transcode.Roles{})
	if err != nil {
		return nil, err
	}
	defer p.Close()
	return mountd.FindGaps(p, r, mountd.Unique(append(mountd.UsualViews(r), others...)))
}

// rebuildCost is measured, see docs/benchmarks.md.
const rebuildCost = "about 2 to 3 ms of CPU each (photographs of 110 kB)"

// rebuilt says how many originals a mount of the store rebuilds, what that costs and what
// helps; "" where it rebuilds none.
func (s *input) rebuilt(env *environ, l transcode.Limits) (string, error) {
	if s.store == nil {
		return "", nil
	}
	p, err := s.producer(env, s.registry(l), transcode.Roles{})
	if err != nil {
		return "", err
	}
	defer p.Close()
	n, err := p.Rebuilt()
	if err != nil || n == 0 {
		return "", err
	}
	if d := mountd.OpenNearby(s.store, s.path, source.Options{}); d != nil {
		return "", d.Close()
	}
	return fmt.Sprintf("original/ rebuilds %s from scans when they are first read, at %s; --dataset DIR reads the files instead, and so does a store packed with --originals keep",
		plural(n, "JPEG file", "JPEG files"), rebuildCost), nil
}

// listing is the names of a tree.
type listing struct {
	samples []string // what the extension says may be one
	others  int      // files that are none
	dirs    int      // the root not counted
	// annotations are few of the other files.
	annotations annotations
}

// list walks the whole tree. Directories that cannot be read are told to warn and
// left out.
func (s *input) list(r *transcode.Registry, warn func(error), stop func() error) (listing, error) {
	l := listing{annotations: annotations{}}
	var walk func(dir string) error
	walk = func(dir string) error {
		if err := stop(); err != nil {
			return err
		}
		entries, err := s.tree.List(dir)
		if err != nil {
			if dir == "" {
				return err
			}
			warn(err)
			return nil
		}
		for _, e := range entries {
			name := path.Join(dir, e.Name)
			switch {
			case e.Dir:
				l.dirs++
				if err := walk(name); err != nil {
					return err
				}
			case r.IsSample(name):
				l.samples = append(l.samples, name)
			default:
				l.others++
				l.annotations.add(name)
			}
		}
		return nil
	}
	err := walk("")
	return l, err
}

// nothing says what a tree without pictures is; "" is for any other.
func (l listing) nothing(path string) string {
	switch {
	case len(l.samples) > 0:
		return ""
	case l.others > 0:
		return fmt.Sprintf("%s has no pictures that pipefs knows: all views show its %s unchanged", path, plural(l.others, "file", "files"))
	case l.dirs > 0:
		return fmt.Sprintf("%s is empty: there are directories in it, and no file", path)
	}
	return fmt.Sprintf("%s is empty: there is no file in it", path)
}

// mayHoldFiles reports whether there is a file below a directory. Of a tree of very
// many directories without any, or that cannot be read, it says yes.
func mayHoldFiles(dir string) bool {
	left := 1000 // directories
	return mayHold(dir, &left)
}

func mayHold(dir string, left *int) bool {
	if *left--; *left < 0 {
		return true
	}
	d, err := os.Open(dir)
	if err != nil {
		return true
	}
	defer d.Close()
	for {
		entries, err := d.ReadDir(100)
		for _, e := range entries {
			if !e.IsDir() || mayHold(filepath.Join(dir, e.Name()), left) {
				return true
			}
		}
		if err != nil {
			return !errors.Is(err, io.EOF)
		}
	}
}

// sight is what a look at one sample tells.
type sight struct {
	path  string
	size  int64 // of the original, bytes
	info  transcode.Info
	fault string // why no codec can read it; empty otherwise
	// unread is why every view shows it unchanged, where it is not broken: nobody
	// taught us its flavour, or it is over a limit. Empty otherwise.
	unread string
	// stored is set where the sample comes from a store.
	stored *store.Sample
}

// look reads the header of a sample, or what a store knows of it. The error is one
// of reading; that a header makes no sense is a fault.
func (s *input) look(r *transcode.Registry, name string) (sight, error) {
	if s.store != nil {
		stored, err := s.store.Lookup(name)
		if err != nil {
			return sight{}, err
		}
		seen := sight{path: name, size: stored.Source.Size, info: stored.Info, fault: stored.Fault, stored: &stored}
		switch {
		case serve.Unread(seen.fault):
			seen.unread, seen.fault = seen.fault, ""
		case seen.fault == "" && seen.info == (transcode.Info{}):
			seen.unread = "when it was packed, no codec read it, or it was over a limit"
		}
		return seen, nil
	}
	f, err := s.dataset.Open(name)
	if err != nil {
		return sight{}, err
	}
	defer f.Close()
	f.Scattered()
	info, err := r.Probe(f, f.Identity.Size)
	seen := sight{path: name, size: f.Identity.Size, info: info}
	switch {
	case err == nil:
	case errors.Is(err, transcode.ErrUnsupported):
		seen.unread = err.Error()
	case errors.Is(err, transcode.ErrBad), errors.Is(err, transcode.ErrTruncated):
		seen.fault = err.Error()
	default:
		return sight{}, err
	}
	return seen, nil
}

// split returns all parts of a sample, as kind makes them: those that a store
// holds, or of a dataset's file what it would hold.
func (s *input) split(ctx context.Context, r *transcode.Registry, kind *transcode.Kind, name string) (transcode.Split, error) {
	if s.store == nil {
		f, err := s.dataset.Open(name)
		if err != nil {
			return transcode.Split{}, err
		}
		defer f.Close()
		if err := r.Limits().CheckFile(f.Identity.Size); err != nil {
			return transcode.Split{}, err
		}
		src, err := f.ReadAll()
		if err != nil {
			return transcode.Split{}, err
		}
		return kind.Split(ctx, src, r.Limits(), false)
	}
	sample, err := s.store.Lookup(name)
	if err != nil {
		return transcode.Split{}, err
	}
	// A store may have been packed with fewer parts, under a key of its own.
	at := slices.IndexFunc(sample.Representations, func(rep store.Representation) bool {
		return strings.HasPrefix(rep.Key, kind.Name+"@")
	})
	if at < 0 {
		return transcode.Split{}, fmt.Errorf("the store does not hold it scan by scan")
	}
	rep := &sample.Representations[at]
	if len(rep.Levels) == 0 || slices.Min(rep.Levels) == 0 {
		return transcode.Split{}, fmt.Errorf("the store's %s has an empty level: run pipefs pack again", rep.Key)
	}
	reader, err := s.store.Reader(*rep, 0)
	if err != nil {
		return transcode.Split{}, err
	}
	defer reader.Close()
	split := transcode.Split{Data: make([]byte, reader.Size()-int64(len(rep.Tail))), Levels: rep.Levels, Tail: rep.Tail}
	if _, err := io.ReadFull(io.NewSectionReader(reader, 0, reader.Size()), split.Data); err != nil {
		return transcode.Split{}, err
	}
	end := 0
	for _, p := range rep.Parts {
		end += int(p.Len)
		split.Ends = append(split.Ends, end)
	}
	return split, nil
}
