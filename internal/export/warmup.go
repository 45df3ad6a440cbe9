package export

import (
	"bufio"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pipefs/pipefs/internal/human"
	"github.com/pipefs/pipefs/internal/mountd"
	"github.com/pipefs/pipefs/internal/mounts"
	"github.com/pipefs/pipefs/internal/usage"
)

// Warmup is a view that is being read.
type Warmup struct {
	Workers  int // 0: as many as makes it faster
	Stdin    io.Reader
	Stderr   io.Writer
	Failures human.Failures
	Files    atomic.Int64 // that were read
	Bytes    atomic.Int64
	Failed   atomic.Int64

	dir  string // of the view
	view string // as the user wrote it
	bar  *human.Progress
}

// Open finds the view.
func (w *Warmup) Open(mnt, view string) error {
	path, err := mounts.Resolve(mnt)
	if err != nil {
		return usage.With(err)
	}
	m, err := mounts.Holding(path)
	if err == nil && (m == nil || !m.Ours()) {
		err = usage.Errorf("%s is no mount of pipefs (pipefs mounts lists them)", mnt)
	}
	if err != nil {
		return err
	}
	w.view = filepath.Join(mnt, view)
	info, err := mounts.Stat(w.view)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return usage.Errorf("%s shows no view %s (pipefs views %s %s says why)", mnt, view, m.Source, view)
	case err != nil:
		return &mountd.MountError{Err: err}
	case !info.IsDir():
		return usage.Errorf("%s is a file and not a view", w.view)
	}
	w.dir, err = filepath.EvalSymlinks(w.view)
	return err
}

// listed reads the names of the files to read.
func (w *Warmup) listed(list string) (names []string, err error) {
	in := w.Stdin
	if list != "-" {
		f, err := os.Open(list)
		if err != nil {
			return nil, usage.With(err)
		}
		defer f.Close()
		in = f
	}
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		name := strings.TrimSuffix(lines.Text(), "\r")
		switch {
		case name == "":
		case !filepath.IsLocal(name):
			return nil, usage.Errorf("%s: %q does not lie in the view: names are relative to it, such as train/a.jpg", list, name)
		default:
			names = append(names, name)
		}
	}
	return names, lines.Err()
}

// each hands over the files of a list.
func (w *Warmup) each(names []string, read func(string) bool) {
	w.bar.SetTotal(len(names))
	for _, name := range names {
		if !read(name) {
			return
		}
	}
}

// walk hands over all files of the view. Directories that cannot be listed are failures.
func (w *Warmup) walk(read func(string) bool) {
	found := 0
	_ = filepath.WalkDir(w.dir, func(path string, e fs.DirEntry, err error) error {
		name, _ := filepath.Rel(w.dir, path)
		switch {
		case err != nil:
			w.fail(name, err)
			return nil
		case e.Type()&fs.ModeSymlink != 0:
			// A link to a directory leads to files that are listed elsewhere.
			if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
				return nil
			}
		case !e.Type().IsRegular():
			return nil
		}
		found++
		if !read(name) {
			return fs.SkipAll
		}
		return nil
	})
	w.bar.SetTotal(found)
}

func (w *Warmup) fail(name string, err error) {
	w.Failed.Add(1)
	w.Failures.Add(name, err)
}

// Run reads all files of the view, or those that a list names.
func (w *Warmup) Run(ctx context.Context, list string) error {
	find := w.walk
	if list != "" {
		names, err := w.listed(list)
		if err != nil {
			return err
		}
		find = func(read func(string) bool) { w.each(names, read) }
	}
	w.bar = human.NewProgress(w.Stderr, "reading", -1)
	names := make(chan string)
	done := make(chan struct{})
	var work sync.WaitGroup
	reader := func() {
		work.Go(func() {
			buffer := make([]byte, 1<<20)
			for name := range names {
				w.read(name, buffer)
				w.bar.Add(1)
			}
		})
	}
	work.Go(func() { w.staff(done, reader) })
	find(func(name string) bool {
		select {
		case names <- name:
			return true
		case <-ctx.Done():
			return false
		}
	})
	close(done)
	close(names)
	work.Wait()
	w.bar.Done()
	return ctx.Err()
}

// read reads one file.
func (w *Warmup) read(name string, buffer []byte) {
	f, err := os.Open(filepath.Join(w.dir, name))
	if err != nil {
		w.fail(name, err)
		return
	}
	defer f.Close()
	for {
		n, err := f.Read(buffer)
		w.Bytes.Add(int64(n))
		switch {
		case errors.Is(err, io.EOF):
			w.Files.Add(1)
			return
		case err != nil:
			w.fail(name, err)
			return
		}
	}
}

const (
	firstReaders = 4
	mostReaders  = 128
	// sample is how long a number of readers is tried.
	sample = time.Second
	// faster is by how much twice as many have to be.
	faster = 1.15
)

// staff starts readers: twice as many each time, until they are no faster for it. Those that
// came last stay.
func (w *Warmup) staff(done <-chan struct{}, reader func()) {
	n := firstReaders
	if w.Workers > 0 {
		n = w.Workers
	}
	for range n {
		reader()
	}
	tick := time.NewTicker(sample)
	defer tick.Stop()
	last, rate := int64(0), int64(0)
	for w.Workers == 0 && n < mostReaders {
		select {
		case <-done:
			return
		case <-tick.C:
		}
		now := w.Bytes.Load()
		if rate > 0 && float64(now-last) < faster*float64(rate) {
			return
		}
		rate, last = now-last, now
		for range n {
			reader()
		}
		n *= 2
	}
}
