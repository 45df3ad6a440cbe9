package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/pipefs/pipefs/internal/exit"
	"github.com/pipefs/pipefs/internal/human"
	"github.com/pipefs/pipefs/internal/mounts"
	"github.com/pipefs/pipefs/internal/terminal"
)

func warmupCommand(env *environ) *cli.Command {
	w := &warmup{env: env}
	var list string
	return &cli.Command{
		Name: "warmup", ArgsUsage: "MNT VIEW", Category: measuring, Usage: "preload a view into the caches",
		Description: "Reads each file of the view once, with as many readers as help. This fills the disk cache of buckets, stores prepared data, and loads what fits into memory. Files that are cached already cost little.",
		UsageText: `pipefs warmup ~/m scan5      # before the training begins
pipefs warmup ~/m scan5 --list fold3.txt`,
		Flags: []cli.Flag{
			opt("list", "FILE", "", intoString(&list), "read only the files named in FILE, one per line, relative to the view; - is standard input"),
			opt("workers", "N", "as many as help", intoInt(&w.fixed, 1, 1024), "read this many files at once"),
			&cli.BoolFlag{Name: "json", Destination: &w.failures.AllNames, Usage: "print JSON, with the names of all files that failed"},
		},
		Action: takes(2, 2, func(ctx context.Context, args []string) error {
			if err := w.open(args[0], args[1]); err != nil {
				return err
			}
			find := w.walk
			if list != "" {
				names, err := w.listed(list)
				if err != nil {
					return err
				}
				find = func(read func(string) bool) { w.each(names, read) }
			}
			return w.run(ctx, find)
		}),
	}
}

// warmup is a view that is being read.
type warmup struct {
	env   *environ
	dir   string // of the view
	view  string // as the user wrote it
	fixed int    // workers; 0: as many as makes it faster

	bar      *terminal.Progress
	files    atomic.Int64 // that were read
	bytes    atomic.Int64
	failed   atomic.Int64
	failures terminal.Failures
}

// open finds the view.
func (w *warmup) open(mnt, view string) error {
	path, err := mounts.Resolve(mnt)
	if err != nil {
		return exit.With(exit.Usage, err)
	}
	m, err := mounts.Holding(path)
	if err == nil && (m == nil || !m.Ours()) {
		err = exit.Errorf(exit.Usage, "%s is no mount of pipefs (pipefs mounts lists them)", mnt)
	}
	if err != nil {
		return err
	}
	w.view = filepath.Join(mnt, view)
	info, err := mounts.Stat(w.view)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return exit.Errorf(exit.Usage, "%s shows no view %s (pipefs views %s %s says why)", mnt, view, m.Source, view)
	case err != nil:
		return exit.With(exit.Mount, err)
	case !info.IsDir():
		return exit.Errorf(exit.Usage, "%s is a file and not a view", w.view)
	}
	w.dir, err = filepath.EvalSymlinks(w.view)
	return err
}

// listed reads the names of the files to read.
func (w *warmup) listed(list string) (names []string, err error) {
	in := w.env.stdin
	if list != "-" {
		f, err := os.Open(list)
		if err != nil {
			return nil, exit.With(exit.Usage, err)
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
			return nil, exit.Errorf(exit.Usage, "%s: %q does not lie in the view: names are relative to it, such as train/a.jpg", list, name)
		default:
			names = append(names, name)
		}
	}
	return names, lines.Err()
}

// each hands over the files of a list.
func (w *warmup) each(names []string, read func(string) bool) {
	w.bar.SetTotal(len(names))
	for _, name := range names {
		if !read(name) {
			return
		}
	}
}

// walk hands over all files of the view. Directories that cannot be listed are failures.
func (w *warmup) walk(read func(string) bool) {
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

func (w *warmup) fail(name string, err error) {
	w.failed.Add(1)
	w.failures.Add(name, err)
}

// run reads what find hands over, and tells what came of it.
func (w *warmup) run(ctx context.Context, find func(func(string) bool)) error {
	started := time.Now()
	w.bar = terminal.NewProgress(w.env.stderr, "reading", -1)
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
	w.failures.Tell(w.env.stderr, "not read")
	took := time.Since(started)
	if w.failures.AllNames {
		if err := terminal.PrintJSON(w.env.stdout, struct {
			Files    int64               `json:"files"`
			Bytes    int64               `json:"bytes"`
			Failed   int64               `json:"failed"`
			Seconds  float64             `json:"seconds"`
			Failures []*terminal.Failure `json:"failures"`
		}{w.files.Load(), w.bytes.Load(), w.failed.Load(), took.Seconds(), w.failures.List}); err != nil {
			return err
		}
	} else {
		fmt.Fprintf(w.env.stdout, "read %s of %s, %s, in %s\n", human.Plural(w.files.Load(), "file", "files"), w.view, human.Size(w.bytes.Load()), took.Round(100*time.Millisecond))
	}
	switch {
	case ctx.Err() != nil:
		return exit.Errorf(exit.Interrupted, "interrupted; the same command reads what is warm again, which is quick, and then the rest")
	case w.failed.Load() > 0:
		return exit.Errorf(exit.System, "%s could not be read", human.Plural(w.failed.Load(), "file", "files"))
	case w.files.Load() == 0:
		fmt.Fprintf(w.env.stderr, "pipefs: note: there is no file to read in %s\n", w.view)
	}
	return nil
}

// read reads one file.
func (w *warmup) read(name string, buffer []byte) {
	f, err := os.Open(filepath.Join(w.dir, name))
	if err != nil {
		w.fail(name, err)
		return
	}
	defer f.Close()
	for {
		n, err := f.Read(buffer)
		w.bytes.Add(int64(n))
		switch {
		case errors.Is(err, io.EOF):
			w.files.Add(1)
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
func (w *warmup) staff(done <-chan struct{}, reader func()) {
	n := firstReaders
	if w.fixed > 0 {
		n = w.fixed
	}
	for range n {
		reader()
	}
	tick := time.NewTicker(sample)
	defer tick.Stop()
	last, rate := int64(0), int64(0)
	for w.fixed == 0 && n < mostReaders {
		select {
		case <-done:
			return
		case <-tick.C:
		}
		now := w.bytes.Load()
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
