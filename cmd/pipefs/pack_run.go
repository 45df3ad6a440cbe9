package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	"github.com/pipefs/pipefs/internal/exit"
	"github.com/pipefs/pipefs/internal/human"
	"github.com/pipefs/pipefs/internal/mountd"
	"github.com/pipefs/pipefs/internal/packing"
	"github.com/pipefs/pipefs/internal/remote"
	"github.com/pipefs/pipefs/internal/survey"
	"github.com/pipefs/pipefs/internal/terminal"
	"github.com/pipefs/pipefs/store"
)

// mostWarnings are shown as they come; the rest is counted.
const mostWarnings = 10

// warnings tell of files that are left out.
type warnings struct {
	env *environ

	mu sync.Mutex
	n  int
}

func (w *warnings) add(path string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.n++; w.n <= mostWarnings {
		fmt.Fprintf(w.env.stderr, "pipefs: left out: %s: %v\n", path, err)
	}
}

// packError tells how to go on.
func packError(c *packing.Config, r packing.Report, err error) error {
	switch {
	case errors.Is(err, context.Canceled):
		return exit.Errorf(exit.Interrupted, "interrupted after %s; what was packed is kept, and the same command goes on from there", human.Plural(r.Files+r.Skipped, "file", "files"))
	case errors.Is(err, store.ErrLocked):
		return exit.Errorf(exit.System, "another pipefs pack writes to %s; wait for it to end", c.Store)
	case errors.Is(err, remote.ErrOtherWriter):
		return exit.Errorf(exit.System, "%s: %w; the store is as that one left it. Run the same command again, which packs what is still missing", c.Store, remote.ErrOtherWriter)
	case errors.Is(err, syscall.ENOSPC) && remote.Is(c.Store):
		return exit.Errorf(exit.System, "packing %s: the disk of %s, where packs are until they are put, is full; free some space, or name another directory with --build-dir, and run the same command again, which goes on from what is packed", c.Store, c.BuildDir)
	case errors.Is(err, syscall.ENOSPC):
		return exit.Errorf(exit.System, "packing %s: the disk is full; free some space and run the same command again, which goes on from what is packed", c.Store)
	case errors.Is(err, store.ErrNotStore):
		return exit.Errorf(exit.Usage, "%w; take an empty or a new directory", err)
	}
	return fmt.Errorf("packing %s: %w", c.Store, err)
}

// tellPacked tells what was packed, and what the store does not give back on its own, or at a price.
func tellPacked(ctx context.Context, env *environ, c *packing.Config, r packing.Report, started time.Time) error {
	out := env.stdout
	fmt.Fprintf(out, "packed %s, skipped %s unchanged, removed %s\n",
		human.Plural(r.Files, "file", "files"), human.Count(r.Skipped), human.Count(r.Removed))
	fmt.Fprintf(out, "%s read, %s written in %s\n", human.Size(r.Read), human.Size(r.Bytes), time.Since(started).Round(100*time.Millisecond))
	if r.Sent.Files > 0 {
		fmt.Fprintf(out, "%s put into %s, %s\n", human.Plural(r.Sent.Files, "object", "objects"), c.Store, human.Size(r.Sent.Bytes))
	}
	if r.Salvaged > 0 {
		fmt.Fprintf(out, "%s taken over from an interrupted packing\n", human.Plural(r.Salvaged, "record was", "records were"))
	}
	if r.Failed > 0 {
		fmt.Fprintf(out, "%s left out, because of errors of reading\n", human.Plural(r.Failed, "file was", "files were"))
	}
	s, err := openSource(ctx, env, mountd.SourceOptions{Path: c.Store, Remote: c.Remote, Limits: c.Limits})
	if err != nil {
		return err
	}
	defer s.Close()
	if r.Faults > 0 {
		fmt.Fprintf(out, "%s no codec can read; kept as they are:\n", human.Plural(r.Faults, "sample that", "samples that"))
		faults, more := s.Faults(mostWarnings)
		for _, f := range faults {
			fmt.Fprintf(out, "  %s: %s\n", f.Path, cmp.Or(f.Fault, f.Unread))
		}
		if more {
			fmt.Fprintf(out, "  and more: pipefs info %s lists them\n", c.Store)
		}
	}
	g, err := s.Gaps()
	if err != nil {
		return err
	}
	if c.Originals == "drop" && g.Describe() != "" {
		terminal.Note(out, "without the dataset, %s", g.Describe())
	}
	n, err := s.Server.Rebuilt()
	if n > 0 {
		terminal.Note(out, "without the dataset, original/ rebuilds %s from scans when they are first read, at %s; --originals keep stores the files instead",
			human.Plural(n, "JPEG file", "JPEG files"), survey.RebuildCost)
	}
	if err != nil {
		return err
	}
	// Which samples the usual view spares, their own files tell.
	if s, err := openSource(ctx, env, mountd.SourceOptions{Path: c.Store, Remote: c.Remote, Dataset: c.Dataset}); err == nil {
		defer s.Close()
		if v, err := s.Registry.Parse("resize256-bmp"); err == nil {
			survey.NoteSpared(noter(env.stderr), s.Server.Spares(ctx, v, nil))
		}
	}
	return nil
}
