package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/fs"
	"github.com/pipefs/pipefs/internal/serve"
	"github.com/pipefs/pipefs/internal/source"
	"github.com/pipefs/pipefs/transcode"
)

// exporting is an export under way.
type exporting struct {
	env *environ
	bar *progress
	*input
	files   *fs.FS
	view    transcode.Pipeline
	out     *output
	force   bool
	started time.Time
	dirs    []fs.Member // that were made or found, in the order of the walk

	mu   sync.Mutex
	done exported

	failures failures
}

// exported counts files.
type exported struct {
	Files    int64      `json:"exported"`
	Skipped  int64      `json:"skipped"`
	Failed   int64      `json:"failed"`
	Bytes    int64      `json:"bytes"` // written
	Failures []*failure `json:"failures"`
	// Spared may be masks, of which the view left out steps.
	Spared serve.Spared `json:"spared"`
}

// run exports everything. The error is one that ends the export; what is wrong
// with single files is told and counted.
func (x *exporting) run(ctx context.Context, workers int) error {
	if workers == 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	members, err := x.files.Walk(x.view)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	files := make(chan fs.Member)
	var work sync.WaitGroup
	for range workers {
		work.Go(func() {
			for m := range files {
				if err := x.file(ctx, m); err != nil {
					stop(err)
				}
			}
		})
	}
	for m, err := range members {
		if ctx.Err() != nil {
			break
		}
		if err == nil && m.Dir {
			// before what is in it goes to the workers
			err = x.out.mkdir(m.Listed)
			x.dirs = append(x.dirs, m)
		}
		if err != nil {
			x.failed(m.Path, err)
		} else if !m.Dir {
			select {
			case files <- m:
			case <-ctx.Done():
			}
		}
	}
	close(files)
	work.Wait()
	if ctx.Err() != nil {
		return endedBy(ctx)
	}
	x.finishDirs()
	return nil
}

// endedBy is the error of one file that ended the export, or the user's wish.
func endedBy(ctx context.Context) error {
	if err := context.Cause(ctx); isFull(err) {
		return err
	}
	return ctx.Err()
}

// file exports one file, again if it changed meanwhile. The error is one that
// ends the export.
func (x *exporting) file(ctx context.Context, m fs.Member) error {
	var n int64
	var skipped bool
	var err error
	for range 3 {
		if n, skipped, err = x.try(ctx, m); !errors.Is(err, source.ErrChanged) {
			break
		}
	}
	switch {
	case ctx.Err() != nil:
		if err != nil {
			return endedBy(ctx)
		}
	case isFull(err):
		return err
	case err != nil:
		x.failed(m.Path, err)
	}
	x.mu.Lock()
	if skipped {
		x.done.Skipped++
	} else if err == nil {
		x.done.Files++
		x.done.Bytes += n
	}
	x.mu.Unlock()
	x.bar.add(1)
	return nil
}

// isFull reports whether nothing more can be written.
func isFull(err error) bool {
	return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) || errors.Is(err, unix.EROFS)
}

var errDiffers = errors.New("another file is there under this name; --force replaces it")

func (x *exporting) try(ctx context.Context, m fs.Member) (written int64, skipped bool, err error) {
	a, err := x.server.Stat(m.Path, false)
	if err != nil {
		return 0, false, err
	}
	file := serve.File{Path: m.Path, Identity: a.Identity}
	there, dated := x.out.look(m.Listed, a)
	if there && !dated && !x.force {
		return 0, false, errDiffers // before anything is made for it
	}
	h, err := x.resolve(ctx, file, x.view)
	if x.registry.IsSample(m.Path) {
		x.mu.Lock()
		x.done.Spared.Add(m.Path, h.Plan(), err)
		x.mu.Unlock()
	}
	switch {
	case err != nil:
		return 0, false, err
	case dated && x.out.holds(m.Listed, h.Size()):
		return 0, true, nil
	case dated && !x.force:
		return 0, false, errDiffers
	}
	content, done, err := openOnce(ctx, h)
	if err != nil {
		return 0, false, err
	}
	defer done()
	if x.view.Len() == 0 && content.Size() != a.Size {
		return 0, false, transcode.Errorf(transcode.ErrInternal, "%d bytes where the original has %d", content.Size(), a.Size)
	}
	return content.Size(), false, x.out.write(ctx, m.Listed, content, a)
}

// finishDirs gives directories their permissions and times, now that nothing is
// written into them any more: those further down first.
func (x *exporting) finishDirs() {
	for _, m := range slices.Backward(x.dirs) {
		a, err := x.server.Stat(m.Path, false)
		if err == nil {
			err = x.out.finish(m.Listed, a)
		}
		if err != nil {
			x.failed(m.Path, fmt.Errorf("permissions and time of the directory: %w", err))
		}
	}
}
