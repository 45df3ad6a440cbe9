// Package export writes all files of a view into a directory, as plain files, without a mount.
//
// # Nouns
//
// [Run] walks a view and makes each of its files in the output, which is the directory that it
// writes into and never out of. A file appears there when it is whole. One that is there with the
// size and the time that it should have is skipped, so that an interrupted export goes on where it
// was. A [Report] counts what was done. A [Warmup] reads a view of a mount, so that later readers find it in caches.
package export

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/fs"
	"github.com/pipefs/pipefs/internal/mountd"
	"github.com/pipefs/pipefs/internal/mounts"
	"github.com/pipefs/pipefs/internal/serve"
	"github.com/pipefs/pipefs/internal/source"
	"github.com/pipefs/pipefs/internal/usage"
	"github.com/pipefs/pipefs/transcode"
)

// Options say what is exported.
type Options struct {
	Source *mountd.Source
	View   transcode.Pipeline // see [View]
	Out    string             // the directory, absolute; it is made if need be
	// Force replaces files of Out that differ.
	Force   bool
	Workers int // files that are made at once; 0 is one a core
	// Failed is told of each file that is missing in Out, by several at once.
	Failed func(path string, err error)
	// Done is told of each file that was dealt with, by several at once.
	Done func()
}

// Report counts files.
type Report struct {
	Files   int64 `json:"exported"`
	Skipped int64 `json:"skipped"`
	Failed  int64 `json:"failed"`
	Bytes   int64 `json:"bytes"` // written
	// SpecialBits counts files and directories of the source that have a set-user-ID, set-group-ID or sticky
	// bit. What is exported belongs to another user, and has none.
	SpecialBits int64 `json:"special_bits"`
	// Spared may be masks, of which the view left out steps.
	Spared serve.Spared `json:"spared"`
}

// exporting is an export under way.
type exporting struct {
	Options
	server *serve.Server
	out    *output
	dirs   []fs.Member // that were made or found, in the order of the walk
	nodes  atomic.Uint64

	mu   sync.Mutex
	done Report
}

// View reads the name of the view to be exported: one whose files are the same whenever they are
// read, or one epoch of a random view. Any other is an error of usage.
func View(r *transcode.Registry, spec string) (transcode.Pipeline, error) {
	p, err := r.ParsePath(spec)
	if err == nil && p.Undrawn() {
		err = usage.Errorf("%s is a random view, whose files are others in each epoch; say which epoch: %s/SEED/EPOCH/%[1]s, such as %[2]s/7/0/%[1]s", p, transcode.DrawDir)
	}
	return p, err
}

// CheckOut refuses places that pipefs never writes to: below one of the sources, or in a mount of
// its own.
func CheckOut(out string, sources ...string) error {
	for _, dir := range sources {
		if dir != "" && mounts.Inside(out, dir) {
			return usage.Errorf("%s lies inside %s, which an export never writes to; take a directory outside of it", out, dir)
		}
	}
	m, err := mounts.Holding(existing(out))
	if err == nil && m != nil && m.Ours() {
		return usage.Errorf("%s lies inside a mount of pipefs, of %s, which cannot be written to; take another directory", out, m.Source)
	}
	return err
}

// existing is the nearest directory above a path, or the path itself, that is
// there, with links followed.
func existing(path string) string {
	for {
		real, err := filepath.EvalSymlinks(path)
		if err == nil {
			return real
		}
		up := filepath.Dir(path)
		if up == path {
			return path
		}
		path = up
	}
}

// Run exports everything. The error is one that ends the export, see [IsFull]; what is wrong with
// single files is told and counted. What was written before is whole.
func Run(ctx context.Context, o Options) (Report, error) {
	files, err := o.Source.Files()
	if err != nil {
		return Report{}, err
	}
	out, err := openOutput(o.Out)
	if err != nil {
		return Report{}, err
	}
	defer out.close()
	if o.Workers == 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	x := &exporting{Options: o, server: o.Source.Server, out: out}
	x.done.Spared = x.server.NewSpared(o.View)
	if err = x.run(ctx, files); err == nil {
		err = out.sync()
	}
	return x.done, withoutUnfinished(err)
}

func (x *exporting) run(ctx context.Context, tree *fs.FS) error {
	members, err := tree.Walk(x.View)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	files := make(chan fs.Member)
	var work sync.WaitGroup
	for range x.Workers {
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
	if err := context.Cause(ctx); IsFull(err) {
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
	for tries := range 3 {
		if n, skipped, err = x.try(ctx, m, tries == 0); !errors.Is(err, source.ErrChanged) {
			break
		}
	}
	switch {
	case ctx.Err() != nil:
		if err != nil {
			return endedBy(ctx)
		}
	case IsFull(err):
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
	x.Done()
	return nil
}

// IsFull reports whether nothing more can be written.
func IsFull(err error) bool {
	return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) || errors.Is(err, unix.EROFS)
}

var errDiffers = errors.New("another file is there under this name; --force replaces it")

func (x *exporting) try(ctx context.Context, m fs.Member, first bool) (written int64, skipped bool, err error) {
	a, err := x.stat(m, first)
	if err != nil {
		return 0, false, err
	}
	file := serve.File{Path: m.Path, Identity: a.Identity}
	there, dated := x.out.look(m.Listed, a)
	if there != nil && !dated && !x.Force {
		return 0, false, errDiffers // before anything is made for it
	}
	h, err := x.server.Resolve(ctx, x.nodes.Add(1), file, x.View, serve.Sized)
	if x.Source.Registry.IsSample(m.Path) {
		x.mu.Lock()
		x.done.Spared.Add(m.Path, h.Plan(), err)
		x.mu.Unlock()
	}
	switch {
	case err != nil:
		return 0, false, err
	case dated && there.Size() == h.Size():
		return 0, true, nil
	case dated && !x.Force:
		return 0, false, errDiffers
	}
	content, err := h.Open(ctx)
	if err != nil {
		return 0, false, err
	}
	defer h.Drop() // it is read once
	defer content.Release()
	if x.View.Len() == 0 && content.Size() != a.Size {
		return 0, false, transcode.Errorf(transcode.ErrInternal, "%d bytes where the original has %d", content.Size(), a.Size)
	}
	return content.Size(), false, x.out.write(ctx, m.Listed, content, a)
}

// stat looks at a file or directory of the source, and counts its special bits if told to.
func (x *exporting) stat(m fs.Member, count bool) (source.Attr, error) {
	a, err := x.server.Stat(m.Path, false)
	if count && a.Mode&source.SpecialBits != 0 {
		x.mu.Lock()
		x.done.SpecialBits++
		x.mu.Unlock()
	}
	return a, err
}

// finishDirs gives directories their permissions and times, now that nothing is
// written into them any more: those further down first.
func (x *exporting) finishDirs() {
	for _, m := range slices.Backward(x.dirs) {
		a, err := x.stat(m, true)
		if err == nil {
			err = x.out.finish(m.Listed, a)
		}
		if err != nil {
			x.failed(m.Path, fmt.Errorf("permissions and time of the directory: %w", err))
		}
	}
}

// failed takes note of one file, which is missing in Out.
func (x *exporting) failed(path string, err error) {
	x.mu.Lock()
	x.done.Failed++
	x.mu.Unlock()
	x.Failed(path, withoutUnfinished(err))
}

// withoutUnfinished leaves out of an error the names that only we know.
func withoutUnfinished(err error) error {
	var p *os.PathError
	var l *os.LinkError
	switch {
	case errors.As(err, &p) && strings.HasPrefix(filepath.Base(p.Path), unfinishedPrefix):
		return p.Err
	case errors.As(err, &l) && strings.HasPrefix(filepath.Base(l.Old), unfinishedPrefix):
		return l.Err
	}
	return err
}
