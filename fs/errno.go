package fs

import (
	"context"
	"errors"
	iofs "io/fs"
	"log/slog"
	"path"
	"sync"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/ahead"
	"github.com/pipefs/pipefs/internal/lru"
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
	v.counters.Errors.Add(1)
	return status
}

// failures are the faults that were logged. A training reads a broken file in each epoch,
// and each time by several requests: the log has one line for it, not thousands.
type failures struct {
	mu    sync.Mutex
	known *lru.Map[failure, *failed]
	last  *lru.Map[string, error] // by path of the mount
}

// failure is what one line of the log tells.
type failure struct{ view, path, cause string }

type failed struct {
	times  int       // requests that failed so
	logged time.Time // when it was last told
}

const (
	maxFailures = 1 << 12
	// failureEvery is how often a fault is told that persists.
	failureEvery = time.Hour
)

func (f *failures) init() {
	f.known, f.last = lru.New[failure, *failed](0, maxFailures), lru.New[string, error](0, maxFailures)
}

// keep keeps the cause of a failure for [FS.Why].
func (f *failures) keep(path string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last.Put(path, err, 0)
}

// Why returns the cause of the last failure of a path of the mount, or of a directory above it. It is empty
// if none is known.
func (f *FS) Why(name string) string {
	f.failures.mu.Lock()
	defer f.failures.mu.Unlock()
	for ; name != "." && name != "/"; name = path.Dir(name) {
		if err, ok := f.failures.last.Get(name); ok {
			return err.Error()
		}
	}
	return ""
}

// count counts one more request that failed, and reports whether that is to be told, and
// how many requests failed so by now.
func (f *failures) count(what failure, now time.Time) (times int, tell bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	known, ok := f.known.Get(what)
	if !ok {
		known = &failed{}
		f.known.Put(what, known, 0)
	}
	known.times++
	if tell = now.Sub(known.logged) >= failureEvery; tell {
		known.logged = now
	}
	return known.times, tell
}

// Everything that would change something is refused here. The kernel mostly does
// so itself, as the mount is read-only, but it can be mounted again as writable.

// SetAttr is refused.
func (f *FS) SetAttr(<-chan struct{}, *fuse.SetAttrIn, *fuse.AttrOut) fuse.Status { return fuse.EROFS }

// Mknod is refused.
func (f *FS) Mknod(<-chan struct{}, *fuse.MknodIn, string, *fuse.EntryOut) fuse.Status {
	return fuse.EROFS
}

// Mkdir is refused.
func (f *FS) Mkdir(<-chan struct{}, *fuse.MkdirIn, string, *fuse.EntryOut) fuse.Status {
	return fuse.EROFS
}

// Unlink is refused.
func (f *FS) Unlink(<-chan struct{}, *fuse.InHeader, string) fuse.Status { return fuse.EROFS }

// Rmdir is refused.
func (f *FS) Rmdir(<-chan struct{}, *fuse.InHeader, string) fuse.Status { return fuse.EROFS }

// Rename is refused.
func (f *FS) Rename(<-chan struct{}, *fuse.RenameIn, string, string) fuse.Status { return fuse.EROFS }

// Link is refused.
func (f *FS) Link(<-chan struct{}, *fuse.LinkIn, string, *fuse.EntryOut) fuse.Status {
	return fuse.EROFS
}

// Symlink is refused.
func (f *FS) Symlink(<-chan struct{}, *fuse.InHeader, string, string, *fuse.EntryOut) fuse.Status {
	return fuse.EROFS
}

// Create is refused.
func (f *FS) Create(<-chan struct{}, *fuse.CreateIn, string, *fuse.CreateOut) fuse.Status {
	return fuse.EROFS
}

// Tmpfile is refused.
func (f *FS) Tmpfile(<-chan struct{}, *fuse.CreateIn, *fuse.CreateOut) fuse.Status { return fuse.EROFS }

// Write is refused.
func (f *FS) Write(<-chan struct{}, *fuse.WriteIn, []byte) (uint32, fuse.Status) {
	return 0, fuse.EROFS
}

// Writev is refused.
func (f *FS) Writev(<-chan struct{}, *fuse.WriteIn, [][]byte) (uint32, fuse.Status) {
	return 0, fuse.EROFS
}

// CopyFileRange is refused.
func (f *FS) CopyFileRange(<-chan struct{}, *fuse.CopyFileRangeIn) (uint32, fuse.Status) {
	return 0, fuse.EROFS
}

// Fallocate is refused.
func (f *FS) Fallocate(<-chan struct{}, *fuse.FallocateIn) fuse.Status { return fuse.EROFS }

// Fsync has nothing to do.
func (f *FS) Fsync(<-chan struct{}, *fuse.FsyncIn) fuse.Status { return fuse.OK }

// FsyncDir has nothing to do.
func (f *FS) FsyncDir(<-chan struct{}, *fuse.FsyncIn) fuse.Status { return fuse.OK }

// Ioctl knows three: what readers announce, the batches for which they ask, and how long a training waits. CPython asks each file whether it is a terminal.
func (f *FS) Ioctl(_ <-chan struct{}, in *fuse.IoctlIn, argument []byte, out *fuse.IoctlOut, reply []byte) fuse.Status {
	if size, ok := askedSize(in.Cmd); ok {
		return f.ask(in, size, argument, out, reply)
	}
	if in.Cmd&^uint32(ahead.MaxMessage<<16) == timedCommand {
		return f.timed(argument)
	}
	size, ok := ahead.CommandSize(in.Cmd)
	if !ok || f.ahead == nil {
		return enotty
	}
	if size != len(argument) || size != len(reply) {
		return fuse.EINVAL
	}
	if err := f.ahead.Take(argument); err != nil {
		out.Result = 1
		copy(reply[:max(size-1, 0)], err.Error())
	}
	return fuse.OK
}
