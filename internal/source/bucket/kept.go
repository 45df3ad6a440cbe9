package bucket

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// keptDir is where the manifest of the place is kept.
func (b *Bucket) keptDir() string {
	sum := sha256.Sum256([]byte(placeName(b.place.String()) + "\n" + b.o.Server))
	return filepath.Join(b.o.Dir, hex.EncodeToString(sum[:8])+".names")
}

// kept opens the manifest that is kept of the place, listed again where it is too old.
func (b *Bucket) kept(ctx context.Context) (*Manifest, error) {
	return b.orAside(ctx, func() (*Manifest, error) { return b.fromDir(ctx) })
}

func (b *Bucket) fromDir(ctx context.Context) (*Manifest, error) {
	m, err := b.openKept(b.o.MaxAge)
	if m != nil || err != nil {
		return m, err
	}
	unlock, err := b.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	// Another mount may have listed it meanwhile.
	if m, err = b.openKept(b.o.MaxAge); m != nil || err != nil {
		return m, err
	}
	return b.write(ctx, b.keptDir())
}

// openKept opens the manifest that is kept; nil is that there is none that is young enough.
func (b *Bucket) openKept(most time.Duration) (*Manifest, error) {
	m, err := OpenManifest(b.keptDir())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case errors.Is(err, ErrManifest):
		b.log.Warn("the list of names that was kept cannot be used, listing again", "cause", err)
		return nil, nil
	case err != nil:
		return nil, err
	case m.Place != placeName(b.place.String()), most >= 0 && time.Since(m.Listed) > most:
		m.Close()
		return nil, nil
	}
	return m, nil
}

// orAside lists the place for this process alone where open has no room or no right to keep
// a manifest.
func (b *Bucket) orAside(ctx context.Context, open func() (*Manifest, error)) (*Manifest, error) {
	m, err := open()
	if !slices.ContainsFunc([]error{unix.ENOSPC, unix.EDQUOT, unix.EROFS, unix.EACCES, unix.EPERM, unix.ENOTDIR}, func(e error) bool { return errors.Is(err, e) }) {
		return m, err
	}
	b.log.Warn("the list of names cannot be kept; it is made for this mount alone", "dir", b.o.Dir, "cause", err)
	dir, err := os.MkdirTemp("", "pipefs-list-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	return b.write(ctx, filepath.Join(dir, "manifest"))
}

// write lists the place into a directory, and opens it. Where it is the one that is kept, the caller has
// the lock.
func (b *Bucket) write(ctx context.Context, dir string) (*Manifest, error) {
	began := time.Now()
	s, err := Write(ctx, b.place, dir, WriteOptions{Progress: b.o.Progress, Log: b.log})
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", b.place, err)
	}
	b.log.Info("listed", "place", s.Place, "objects", s.Objects, "bytes", s.Bytes, "left_out", s.LeftOut, "took", time.Since(began).Round(time.Millisecond))
	return OpenManifest(dir)
}

// lockPatience is how often it is looked whether another mount has ended listing.
const lockPatience = 50 * time.Millisecond

// lock waits until no other mount of this user lists the place.
func (b *Bucket) lock(ctx context.Context) (unlock func(), err error) {
	if err := os.MkdirAll(b.o.Dir, 0o700); err != nil { // it may have gone since it was there
		return nil, fmt.Errorf("directory for lists of names: %w", err)
	}
	f, err := os.OpenFile(b.keptDir()+".listing", os.O_RDWR|os.O_CREATE, 0o600)
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
			return nil, fmt.Errorf("another mount lists %s: %w", b.place, ctx.Err())
		case <-time.After(lockPatience):
		}
	}
}

// Rescan lists the place again, or opens the manifest that was given again, and returns what
// the list said before and what it says now. The tree is the new one from then on.
func (b *Bucket) Rescan(ctx context.Context) (before, now Summary, err error) {
	return b.renew(func() (*Manifest, error) {
		if b.o.Manifest != "" {
			return b.given(b.o.Manifest)
		}
		return b.orAside(ctx, func() (*Manifest, error) {
			unlock, err := b.lock(ctx)
			if err != nil {
				return nil, err
			}
			defer unlock()
			return b.write(ctx, b.keptDir())
		})
	})
}

// Refresh makes the list young enough if it is not, by a list that another mount made where there
// is one. It reports whether there is a new one.
func (b *Bucket) Refresh(ctx context.Context) (bool, error) {
	if b.o.Manifest != "" || b.o.MaxAge < 0 || time.Since(b.Summary().Listed) <= b.o.MaxAge {
		return false, nil
	}
	_, _, err := b.renew(func() (*Manifest, error) { return b.kept(ctx) })
	return err == nil, err
}

// renew takes over another manifest.
func (b *Bucket) renew(open func() (*Manifest, error)) (before, now Summary, err error) {
	b.rescan.Lock()
	defer b.rescan.Unlock()
	next, err := open()
	if err != nil {
		return Summary{}, Summary{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	last := b.manifest
	b.manifest = next
	return last.Summary, next.Summary, last.Close()
}
