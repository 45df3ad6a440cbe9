package names

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// Kept returns what open finds, or what write makes in the directory at, which all mounts of a user share. open
// returns nil where there is nothing that will do. One process at a time writes. Where it cannot be
// kept there, for want of space or of permission, write makes one for this process alone.
func Kept[T any](ctx context.Context, at string, log *slog.Logger, open func() (*T, error), write func(dir string) (*T, error)) (*T, error) {
	found, err := keep(ctx, at, open, write)
	if !slices.ContainsFunc([]error{unix.ENOSPC, unix.EDQUOT, unix.EROFS, unix.EACCES, unix.EPERM, unix.ENOTDIR}, func(e error) bool { return errors.Is(err, e) }) {
		return found, err
	}
	log.Warn("the list of names cannot be kept; it is made for this mount alone", "dir", filepath.Dir(at), "cause", err)
	dir, err := os.MkdirTemp("", "pipefs-list-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir) // what is open stays readable
	return write(filepath.Join(dir, "names"))
}

func keep[T any](ctx context.Context, at string, open func() (*T, error), write func(dir string) (*T, error)) (*T, error) {
	if found, err := open(); found != nil || err != nil {
		return found, err
	}
	unlock, err := lock(ctx, at)
	if err != nil {
		return nil, err
	}
	defer unlock()
	// Another mount may have made it meanwhile.
	if found, err := open(); found != nil || err != nil {
		return found, err
	}
	return write(at)
}

// lockInterval is how often it is looked whether another mount has ended listing.
const lockInterval = 50 * time.Millisecond

// lock waits until no other mount of this user writes the index.
func lock(ctx context.Context, at string) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil { // it may have gone since it was there
		return nil, fmt.Errorf("directory for lists of names: %w", err)
	}
	f, err := os.OpenFile(at+".listing", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		switch err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); {
		case err == nil:
			return func() { f.Close() }, nil
		case !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR):
			f.Close()
			return nil, os.NewSyscallError("flock", err)
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, fmt.Errorf("another mount makes the list of names: %w", ctx.Err())
		case <-time.After(lockInterval):
		}
	}
}
