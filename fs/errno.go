package fs

import (
	"context"
	"errors"
	iofs "io/fs"
	"log/slog"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/serve"
	"github.com/pipefs/pipefs/internal/source"
)

const (
	estale       = fuse.Status(unix.ESTALE)
	enametoolong = fuse.Status(unix.ENAMETOOLONG)
	enotty       = fuse.Status(unix.ENOTTY)
	enotdir      = fuse.Status(unix.ENOTDIR)
	euclean      = fuse.Status(unix.EUCLEAN)
)

// errno is the one place where errors become numbers. What has no number of its
// own is EIO.
func errno(err error) fuse.Status {
	switch {
	case err == nil:
		return fuse.OK
	case errors.Is(err, serve.ErrTooManyBad):
		return euclean // readers that leave bad samples out must not leave out these
	case errors.Is(err, source.ErrChanged):
		return estale
	case errors.Is(err, iofs.ErrNotExist):
		return fuse.ENOENT
	case errors.Is(err, serve.ErrRefused), serve.IsUnfit(err):
		// Not EACCES: no permission would help. It is the files that are refused, and not
		// their directory: os.walk and glob pass over a directory that they cannot list.
		return fuse.EPERM
	case errors.Is(err, iofs.ErrPermission):
		return fuse.EACCES
	case errors.Is(err, context.Canceled):
		return fuse.EINTR
	case errors.Is(err, unix.ENOTDIR):
		return enotdir
	}
	return fuse.EIO
}

// noOffset is the offset of what is not a read.
const noOffset = -1

// fail answers with an error's number. Behind each EIO stands one line in the
// log: see failures.
func (f *FS) fail(v *view, op, path string, off int64, err error) fuse.Status {
	status := errno(err)
	switch status {
	case fuse.ENOENT, fuse.EINTR:
		return status
	case fuse.EIO, euclean:
		if times, tell := f.failures.count(failure{v.name, path, err.Error()}, time.Now()); tell {
			args := []any{"op", op, "view", v.name, "sample", path, "cause", err}
			if off != noOffset {
				args = append(args, "offset", off)
			}
			if times > 1 {
				args = append(args, "times", times)
			}
			f.log.Error("I/O error", args...)
		}
	case estale:
		// Where changes are seen as they happen, it is how a program learns of one.
		level := slog.LevelDebug
		times, tell := 1, true
		if f.fresh == Immutable {
			level = slog.LevelInfo
			times, tell = f.failures.count(failure{v.name, path, err.Error()}, time.Now())
		}
		if tell {
			f.log.Log(context.Background(), level, "a file changed or went since it was looked up: who has it open gets ESTALE", "op", op, "view", v.name, "sample", path, "offset", off, "times", times, "cause", err)
		}
	case fuse.EPERM:
		// All files of a directory are refused for the same reason.
		if r := (*serve.Refusal)(nil); errors.As(err, &r) && r.First() {
			what := "directory refused"
			if r.Unfit != "" {
				what = "sample refused"
			}
			f.log.Error(what, "view", v.name, "cause", err)
		}
	default:
		f.log.Debug("request refused", "op", op, "view", v.name, "sample", path, "offset", off, "cause", err)
	}
	f.failures.keep(join(v.name, path), err)
	v.counters.errors.Add(1)
	return status
}
