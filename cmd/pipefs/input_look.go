package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/pipefs/pipefs/internal/exit"
	"github.com/pipefs/pipefs/internal/serve"
	"github.com/pipefs/pipefs/internal/source"
	"github.com/pipefs/pipefs/store"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/codecs"
)

// errPartial stands for the names that a walk leaves out, if it may list some only.
var errPartial = errors.New("not all is listed")

// listing is the names of a tree.
type listing struct {
	samples []string // what the extension says may be one
	others  int      // files that are none
	dirs    int      // the root not counted
	partial bool     // not all could be listed
	archive string   // the first of the other files that is an archive by its name
	// annotations are few of the other files.
	annotations annotations
}

// walk yields all that is below the root, with whole paths as names, and the errors of
// directories that cannot be read.
func (s *input) walk() iter.Seq2[source.Entry, error] {
	return func(yield func(source.Entry, error) bool) {
		var walk func(dir string) bool
		dirs := 0
		walk = func(dir string) bool {
			if dirs++; dirs == s.most {
				return yield(source.Entry{Name: dir}, errPartial)
			} else if s.most > 0 && dirs > s.most {
				return true
			}
			entries, err := s.tree.List(dir)
			if err == nil && s.most > 0 && len(entries) >= firstNames {
				err = errPartial
			}
			if err != nil && !yield(source.Entry{Name: dir}, err) {
				return false
			}
			for _, e := range entries {
				e.Name = path.Join(dir, e.Name)
				if !yield(e, nil) || e.Dir && !walk(e.Name) {
					return false
				}
			}
			return true
		}
		walk("")
	}
}

// list walks the whole tree. Directories that cannot be read are left out, and told to w.
func (s *input) list(ctx context.Context, w io.Writer) (listing, error) {
	l := listing{annotations: annotations{}}
	for e, err := range s.walk() {
		switch {
		case ctx.Err() != nil:
			return l, ctx.Err()
		case errors.Is(err, errPartial):
			l.partial = true
		case err != nil && e.Name == "":
			return l, err
		case err != nil:
			l.partial = true
			fmt.Fprintf(w, "pipefs: left out: %v\n", err)
		case e.Dir:
			l.dirs++
		case s.registry.IsSample(e.Name):
			l.samples = append(l.samples, e.Name)
		default:
			l.others++
			if l.archive == "" && source.Archive(e.Name, "", "") != "" {
				l.archive = e.Name
			}
			l.annotations.add(e.Name)
		}
	}
	return l, nil
}

// nothing says what a tree without pictures is; "" is for any other.
func (l listing) nothing(path string) string {
	switch {
	case len(l.samples) > 0:
		return ""
	case l.archive != "":
		return fmt.Sprintf("%s has no pictures that pipefs knows: all views show its %s unchanged, such as %s. That is %s",
			path, plural(l.others, "file", "files"), l.archive, source.Archive(l.archive, shellWord(filepath.Join(path, l.archive)), ""))
	case l.others > 0:
		return fmt.Sprintf("%s has no pictures that pipefs knows: all views show its %s unchanged", path, plural(l.others, "file", "files"))
	case l.dirs > 0:
		return fmt.Sprintf("%s is empty: there are directories in it, and no file", path)
	}
	return fmt.Sprintf("%s is empty: there is no file in it", path)
}

// lookInto lists the first directories of a dataset on this machine, and says what it is if it
// has no pictures. It does not look into stores.
func lookInto(ctx context.Context, dir string) (l listing, nothing string) {
	if is, err := store.Is(dir); err != nil || is {
		return l, ""
	}
	d, err := source.Open(dir, source.Options{Names: firstNames})
	if err != nil {
		return l, ""
	}
	defer d.Close()
	s := &input{tree: d, registry: codecs.Default(transcode.Limits{}), most: firstDirs}
	if l, err = s.list(ctx, io.Discard); err != nil || l.partial {
		return l, ""
	}
	return l, l.nothing(dir)
}

// filledDataset makes the path of a dataset or store what the kernel will call it. It refuses one on
// this machine without any file, since nothing is done then, and tells of archives.
func filledDataset(ctx context.Context, env *environ, given, done string) (string, error) {
	dir, err := resolveSource(given)
	if err != nil {
		return "", exit.With(exit.System, err)
	}
	switch l, nothing := lookInto(ctx, dir); {
	case nothing != "" && l.others == 0:
		return "", exit.Errorf(exit.System, "%s is empty: there is no file in it, and nothing was %s. If it is where a disk belongs, mount that first", dir, done)
	case nothing != "" && l.archive != "":
		noter(env.stderr)("%s", nothing)
	}
	return dir, nil
}

// sampleInfo is what the header of a sample tells, or a store.
type sampleInfo struct {
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
func (s *input) look(name string) (sampleInfo, error) {
	if s.store != nil {
		stored, err := s.store.Lookup(name)
		if err != nil {
			return sampleInfo{}, err
		}
		seen := sampleInfo{path: name, size: stored.Source.Size, info: stored.Info, fault: stored.Fault, stored: &stored}
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
		return sampleInfo{}, err
	}
	defer f.Close()
	f.Scattered()
	info, err := s.registry.Probe(f, f.Identity.Size)
	seen := sampleInfo{path: name, size: f.Identity.Size, info: info}
	switch {
	case err == nil:
	case errors.Is(err, transcode.ErrUnsupported):
		seen.unread = err.Error()
	case errors.Is(err, transcode.ErrBad), errors.Is(err, transcode.ErrTruncated):
		seen.fault = err.Error()
	default:
		return sampleInfo{}, err
	}
	return seen, nil
}

// split returns all parts of a sample, as kind makes them: those that a store
// holds, or of a dataset's file what it would hold.
func (s *input) split(ctx context.Context, kind *transcode.Kind, name string) (transcode.Split, error) {
	if s.store == nil {
		f, err := s.dataset.Open(name)
		if err != nil {
			return transcode.Split{}, err
		}
		defer f.Close()
		if err := s.registry.Limits().CheckFile(f.Identity.Size); err != nil {
			return transcode.Split{}, err
		}
		src, err := f.ReadAll()
		if err != nil {
			return transcode.Split{}, err
		}
		return s.registry.Split(ctx, kind, src, false)
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

// lookAll looks at samples, several at once, and hands what it sees to each, several at once,
// too, and in no particular order. A sample that cannot be read is told to each with its
// error as fault.
func (s *input) lookAll(ctx context.Context, names []string, each func(sampleInfo)) error {
	var work errgroup.Group
	// reading headers waits for the disk more than it computes
	work.SetLimit(4 * runtime.GOMAXPROCS(0))
	for _, name := range names {
		if ctx.Err() != nil {
			break
		}
		work.Go(func() error {
			seen, err := s.look(name)
			if err != nil {
				seen = sampleInfo{path: name, fault: err.Error()}
			}
			each(seen)
			return nil
		})
	}
	_ = work.Wait() // none of them fails
	return ctx.Err()
}

// countFiles finds the total of a progress in the background. What it returns
// waits until that has ended.
func (s *input) countFiles(ctx context.Context, bar *progress) func() {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		l, err := s.list(ctx, io.Discard)
		if err == nil {
			bar.setTotal(len(l.samples) + l.others)
		}
	}()
	return func() {
		cancel()
		<-done
	}
}
