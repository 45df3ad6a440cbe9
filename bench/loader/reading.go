package loader

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/human"
	"github.com/pipefs/pipefs/transcode"
)

// Reading says which views a loader can read.
type Reading struct {
	*Reader             // of --for; nil without
	Extensions []string // of the dataset's samples, as far as they are known
	Turned     int      // samples that the loader turns by their EXIF orientation, or may turn
}

// NewReading is of a loader that may be unknown, and of samples of which so many have an EXIF
// orientation. Without --for nothing is turned: the loaders of bench turn nothing.
func NewReading(name string, extensions []string, turned int) Reading {
	r, ok := FindReader(name)
	switch {
	case !ok:
		return Reading{Extensions: extensions}
	case !r.Turns:
		turned = 0
	}
	return Reading{&r, extensions, turned}
}

// reads says why the loader cannot read a view, or reads it otherwise than the dataset, or is empty.
func (r Reading) reads(p transcode.Pipeline) (why string) {
	if r.Reader != nil {
		why = r.Reads(p, r.Extensions)
	}
	if why == "" && r.Turned > 0 && p.DropsOrientation() {
		why = fmt.Sprintf("%s drops the EXIF orientation of %s, by which the loader turns pictures; write upright-%s",
			p, human.Plural(r.Turned, "sample", "samples"), strings.TrimPrefix(p.String(), transcode.Stored+"-"))
	}
	return why
}

// Cannot says why a view cannot be read, and what to write instead, or is empty.
func (r Reading) Cannot(p transcode.Pipeline) string {
	why := r.reads(p)
	if why == "" || p.Random() && r.Reader != nil && r.Name == "torch" { // pipefs.RandomView takes an ImageFolder
		return ""
	}
	for _, other := range []transcode.Pipeline{p.WithOwnNames(), p.Whole()} {
		if r.reads(other) == "" {
			return why + "; write " + other.String()
		}
	}
	return why
}

// Uncommon says why a view that is materialized is not compared unless the loader
// is known or the view is named, or is empty.
func (r Reading) Uncommon(registry *transcode.Registry, view string) string {
	p, err := registry.Parse(view)
	if err != nil || r.Reader != nil {
		return ""
	}
	for _, one := range Readers {
		if why := one.Reads(p, nil); why != "" && one.Name != "torchvision-io" {
			return why + "; name the loader with --for, or the view with --views"
		}
	}
	return ""
}

// Assumed says for which loaders views were chosen.
func (r Reading) Assumed(registry *transcode.Registry, views []string) string {
	if r.Reader != nil {
		return fmt.Sprintf("the views are some that %s reads (--for %s)", r.What, r.Name)
	}
	var can, not []string
	for _, one := range Readers {
		reads := true
		for _, v := range views {
			if p, err := registry.Parse(v); err == nil && one.Reads(p, r.Extensions) != "" {
				reads = false
			}
		}
		if reads {
			can = append(can, one.Name)
		} else {
			not = append(not, one.Name)
		}
	}
	switch {
	case len(not) == 0:
		return ""
	case len(can) == 0:
		return "no loader that --for knows reads all of these views"
	}
	return fmt.Sprintf("the views are for loaders that read all of them: %s; not for %s (--for changes that)", strings.Join(can, ", "), strings.Join(not, ", "))
}

// Each does n things on so many workers at the same time; 0 means one a core. do is
// told on which worker it runs, so that a worker can keep memory of its own. The first
// error ends it.
func Each(ctx context.Context, workers, n int, do func(ctx context.Context, worker, i int) error) error {
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var group sync.WaitGroup
	for w := range workers {
		group.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				if err := do(ctx, w, i); err != nil {
					cancel(err)
				}
			}
		})
	}
	group.Wait()
	return context.Cause(ctx)
}

// Forget asks the page cache to drop all regular files below dir, after writing
// back what is dirty. It needs no privilege, and drops nothing that somebody has
// mapped.
func Forget(dir string) error {
	return filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		return drop(name, true)
	})
}

// Drop is Forget for files that are not dirty. It does not wait for the disk.
func Drop(names []string) error {
	for _, name := range names {
		if err := drop(name, false); err != nil {
			return err
		}
	}
	return nil
}

func drop(name string, sync bool) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	if sync {
		if err := unix.Fdatasync(int(f.Fd())); err != nil {
			return &fs.PathError{Op: "fdatasync", Path: name, Err: err}
		}
	}
	if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
		return &fs.PathError{Op: "fadvise", Path: name, Err: err}
	}
	return nil
}

// Evenly picks n of the names, evenly spread, or all where there are no more.
func Evenly(names []string, n int) []string {
	if len(names) <= n {
		return names
	}
	picked := make([]string, n)
	for i := range picked {
		picked[i] = names[i*len(names)/n]
	}
	return picked
}
