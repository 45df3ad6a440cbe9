package bucket

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/pipefs/pipefs/internal/source/names"
	"github.com/pipefs/pipefs/store/blob"
)

// keptDir is where the manifest of the place is kept.
func (b *Bucket) keptDir() string {
	sum := sha256.Sum256([]byte(placeName(b.place.String()) + "\n" + b.o.Server))
	return filepath.Join(b.o.Dir, hex.EncodeToString(sum[:8])+".names")
}

// kept opens the manifest that is kept of the place, listed again where it is too old.
func (b *Bucket) kept(ctx context.Context) (*Manifest, error) {
	return b.keep(ctx, func() (*Manifest, error) { return b.openKept(b.o.MaxAge) })
}

// listed lists the place again, whatever is kept, unless it cannot have changed.
func (b *Bucket) listed(ctx context.Context) (*Manifest, error) {
	if _, snapshot := b.place.(blob.Snapshot); snapshot {
		return b.kept(ctx)
	}
	return b.keep(ctx, func() (*Manifest, error) { return nil, nil })
}

func (b *Bucket) keep(ctx context.Context, open func() (*Manifest, error)) (*Manifest, error) {
	return names.Kept(ctx, b.keptDir(), b.log, open, func(dir string) (*Manifest, error) { return b.write(ctx, dir) })
}

// openKept opens the manifest that is kept; nil is that there is none that is young enough.
func (b *Bucket) openKept(most time.Duration) (*Manifest, error) {
	if _, snapshot := b.place.(blob.Snapshot); snapshot {
		most = -1
	}
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

// Rescan lists the place again, or opens the manifest that was given again, and returns what
// the list said before and what it says now. The tree is the new one from then on.
func (b *Bucket) Rescan(ctx context.Context) (before, now Summary, err error) {
	return b.renew(func() (*Manifest, error) {
		if b.o.Manifest != "" {
			return b.given(b.o.Manifest)
		}
		return b.listed(ctx)
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
