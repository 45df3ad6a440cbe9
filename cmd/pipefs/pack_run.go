package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"syscall"
	"time"

	"github.com/pipefs/pipefs/internal/exit"
	"github.com/pipefs/pipefs/internal/mountd"
	"github.com/pipefs/pipefs/internal/prepare/pack"
	"github.com/pipefs/pipefs/internal/remote"
	"github.com/pipefs/pipefs/internal/source"
	"github.com/pipefs/pipefs/store"
	"github.com/pipefs/pipefs/store/vfs"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/codecs"
	"github.com/pipefs/pipefs/transcode/jpeg"
)

// packStore puts a dataset into a store.
func packStore(ctx context.Context, c *packConfig, d source.Dataset, w *packing) (store.Report, error) {
	r := packRegistry(c, w)
	what := whatIsPacked(w.env, c, d, r)
	return store.Pack(ctx, c.store, counted{what, w}, what, store.PackOptions{
		FS:           c.files(),
		IndexDir:     mountd.IndexDir(c.remote, c.store),
		RecordImages: c.recordImages,
		Order:        store.Order(c.order),
		Seed:         uint64(max(c.seed, 0)),
		Workers:      c.workers,
		DatasetPath:  c.dataset,
		Progress:     w.progress,
		Warn:         w.warn,
		Logger:       quiet(w.env),
	})
}

// whatIsPacked says what a store keeps of a dataset.
func whatIsPacked(env *environ, c *packConfig, d source.Dataset, r *transcode.Registry) pack.Dataset {
	what := pack.Dataset{Registry: r, Dir: d, Originals: pack.Originals(c.originals), Log: quiet(env)}
	for _, k := range r.Kinds() {
		if k.Name == c.represent {
			what.Represent = k
		}
	}
	return what
}

// files is the file system of the store.
func (c *packConfig) files() vfs.FS {
	if c.build != nil {
		return c.build
	}
	return vfs.OS
}

// packRegistry makes files as asked, or as the store has them.
func packRegistry(c *packConfig, w *packing) *transcode.Registry {
	var o codecs.Options
	// Where it cannot be opened it is a new one, or the packing will say what is
	// wrong.
	files := vfs.OS
	if c.build != nil {
		files = c.build.FS // where nothing is written to: it is only looked at
	}
	if s, err := store.Open(c.store, store.Options{Logger: quiet(w.env), FS: files, IndexDir: mountd.IndexDir(c.remote, c.store)}); err == nil {
		o = codecs.OptionsOf(s.Stats().Bytes)
		s.Close()
	}
	return codecs.New(c.limits, c.codecs(o))
}

// codecs is how files are made: as a store has them, unless that was asked for otherwise.
func (c *packConfig) codecs(o codecs.Options) codecs.Options {
	if c.scans != nil {
		o.Cuts = jpeg.CutsAt(c.scans...)
	}
	if c.l3.given() {
		o.L3 = c.l3.Options
	}
	return o
}

// counted counts the bytes that are read.
type counted struct {
	pack.Dataset
	packing *packing
}

func (c counted) Read(ctx context.Context, path string) ([]byte, store.Identity, error) {
	data, identity, err := c.Dataset.Read(ctx, path)
	c.packing.didRead(len(data))
	return data, identity, err
}

func (c counted) Copy(ctx context.Context, path string, w io.Writer) (store.Identity, error) {
	return c.Dataset.Copy(ctx, path, counter{w, c.packing})
}

// counter counts what is written to it as read.
type counter struct {
	io.Writer
	packing *packing
}

func (c counter) Write(b []byte) (int, error) {
	c.packing.didRead(len(b))
	return c.Writer.Write(b)
}

// packing is a packing under way, as the user sees it.
type packing struct {
	env     *environ
	bar     *progress
	started time.Time

	sent remote.Sent // to a URL

	mu    sync.Mutex
	read  int64 // bytes of the dataset
	warns int
}

// warnings that are shown as they come; the rest is counted.
const mostWarnings = 10

func (w *packing) warn(path string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.warns++; w.warns <= mostWarnings {
		fmt.Fprintf(w.env.stderr, "pipefs: left out: %s: %v\n", path, err)
	}
}

func (w *packing) didRead(n int) {
	w.mu.Lock()
	w.read += int64(n)
	w.mu.Unlock()
}

func (w *packing) progress(p store.Progress) {
	w.bar.reach(int(p.Files + p.Skipped + p.Failed))
}

// packError tells how to go on.
func packError(c *packConfig, r store.Report, err error) error {
	switch {
	case errors.Is(err, context.Canceled):
		return exit.Errorf(exit.Interrupted, "interrupted after %s; what was packed is kept, and the same command goes on from there", plural(r.Files+r.Skipped, "file", "files"))
	case errors.Is(err, store.ErrLocked):
		return exit.Errorf(exit.System, "another pipefs pack writes to %s; wait for it to end", c.store)
	case errors.Is(err, remote.ErrOtherWriter):
		return exit.Errorf(exit.System, "%s: %w; the store is as that one left it. Run the same command again, which packs what is still missing", c.store, remote.ErrOtherWriter)
	case errors.Is(err, syscall.ENOSPC) && c.build != nil:
		return exit.Errorf(exit.System, "packing %s: the disk of %s, where packs are until they are put, is full; make room, or name another directory with --build-dir, and run the same command again, which goes on from what is packed", c.store, c.buildDir)
	case errors.Is(err, syscall.ENOSPC):
		return exit.Errorf(exit.System, "packing %s: the disk is full; make room and run the same command again, which goes on from what is packed", c.store)
	case errors.Is(err, store.ErrNotStore):
		return exit.Errorf(exit.Usage, "%w; take an empty or a new directory", err)
	}
	return fmt.Errorf("packing %s: %w", c.store, err)
}

func (w *packing) tell(out io.Writer, c *packConfig, r store.Report) {
	fmt.Fprintf(out, "packed %s, skipped %s unchanged, removed %s\n",
		plural(r.Files, "file", "files"), formatCount(r.Skipped), formatCount(r.Removed))
	fmt.Fprintf(out, "%s read, %s written in %s\n", formatSize(w.read), formatSize(r.Bytes), time.Since(w.started).Round(100*time.Millisecond))
	if w.sent.Files > 0 {
		fmt.Fprintf(out, "%s put into %s, %s\n", plural(w.sent.Files, "object", "objects"), c.store, formatSize(w.sent.Bytes))
	}
	if r.Salvaged > 0 {
		fmt.Fprintf(out, "%s taken over from an interrupted packing\n", plural(r.Salvaged, "record was", "records were"))
	}
	if r.Failed > 0 {
		fmt.Fprintf(out, "%s left out, because of errors of reading\n", plural(r.Failed, "file was", "files were"))
	}
	if r.Faults > 0 {
		fmt.Fprintf(out, "%s no codec can read; kept as they are:\n", plural(r.Faults, "sample that", "samples that"))
		faults, more := storeFaults(w.env, c, mostWarnings)
		for _, f := range faults {
			fmt.Fprintf(out, "  %s: %s\n", f.Path, f.Reason)
		}
		if more {
			fmt.Fprintf(out, "  and more: pipefs info %s lists them\n", c.store)
		}
	}
}

// tellSpared says which samples of a store the usual view spares.
func (w *packing) tellSpared(ctx context.Context, c *packConfig) {
	if s, err := openSource(ctx, w.env, mountd.SourceOptions{Path: c.store, Remote: c.remote, Dataset: c.dataset}); err == nil {
		defer s.Close()
		if v, err := s.Registry.Parse("resize256-bmp"); err == nil {
			noteSpared(w.env.stderr, s.Server.Spares(ctx, v, nil))
		}
	}
}

// storeFaults finds the first faults in a store, by path.
func storeFaults(env *environ, c *packConfig, most int) (found []fault, more bool) {
	s, err := openSource(context.Background(), env, mountd.SourceOptions{Path: c.store, Remote: c.remote})
	if err != nil {
		return nil, true
	}
	defer s.Close()
	l, err := s.List(context.Background(), nil)
	if err != nil {
		return nil, true
	}
	for _, name := range l.Samples {
		seen, lookErr := s.Look(name)
		reason := cmp.Or(seen.Fault, seen.Unread)
		if lookErr != nil || reason == "" {
			continue
		}
		if len(found) == most {
			return found, true
		}
		found = append(found, fault{name, reason})
	}
	return found, false
}
