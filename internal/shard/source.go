package shard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/prepare/pack"
	"github.com/pipefs/pipefs/internal/source"
	"github.com/pipefs/pipefs/store"
	"github.com/pipefs/pipefs/store/blob"
)

// directory reads planned files from a directory. Another machine may have a copy of what was planned, with
// other inodes and ctimes: a file is the one that was planned if it has that size and mtime.
type directory struct{ pack.Dataset }

// InDirectory is the source of a shard whose dataset is in a directory.
func InDirectory(d pack.Dataset) store.ShardSource { return directory{d} }

func isPlanned(is, planned store.Identity) bool {
	mtime := func(i store.Identity) int64 { return source.IdentityOf(i.Size, i.Version).MTime }
	return is.Size == planned.Size && mtime(is) == mtime(planned)
}

// Read implements [store.ShardSource].
func (d directory) Read(ctx context.Context, f store.SourceFile) ([]byte, error) {
	data, is, err := d.Dataset.Read(ctx, f.Path)
	return data, d.check(f, is, err)
}

// Copy implements [store.ShardSource].
func (d directory) Copy(ctx context.Context, f store.SourceFile, w io.Writer) error {
	is, err := d.Dataset.Copy(ctx, f.Path, w)
	return d.check(f, is, err)
}

func (d directory) check(f store.SourceFile, is store.Identity, err error) error {
	switch {
	case errors.Is(err, source.ErrChanged), err == nil && !isPlanned(is, f.Identity):
		return fmt.Errorf("%s: %w", f.Path, store.ErrChanged)
	case errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP): // what was a directory is a file now
		return fmt.Errorf("%s: %w", f.Path, fs.ErrNotExist)
	}
	return err
}

// objects reads planned files from a place of objects, without listing it.
type objects struct {
	place    blob.Objects
	versions map[string]blob.Version // by name
}

// Read implements [store.ShardSource].
func (o objects) Read(ctx context.Context, f store.SourceFile) ([]byte, error) {
	data := make([]byte, f.Identity.Size)
	return data, o.read(ctx, f, data, 0)
}

// Copy implements [store.ShardSource].
func (o objects) Copy(ctx context.Context, f store.SourceFile, w io.Writer) error {
	if f.Identity.Size == 0 {
		return o.read(ctx, f, nil, 0)
	}
	buf := make([]byte, min(f.Identity.Size, copyBytes))
	for off := int64(0); off < f.Identity.Size; off += copyBytes {
		b := buf[:min(copyBytes, f.Identity.Size-off)]
		if err := o.read(ctx, f, b, off); err != nil {
			return err
		}
		if _, err := w.Write(b); err != nil {
			return err
		}
	}
	return nil
}

// copyBytes is how much of a long object is read at once.
const copyBytes = 4 << 20

func (o objects) read(ctx context.Context, f store.SourceFile, b []byte, off int64) error {
	version := o.versions[f.Path]
	if len(b) == 0 {
		i, err := o.place.Stat(ctx, f.Path)
		if err == nil && i.Version != version {
			err = fmt.Errorf("%s: %w", f.Path, store.ErrChanged)
		}
		return err
	}
	err := o.place.ReadAt(ctx, f.Path, version, b, off)
	if errors.Is(err, blob.ErrChanged) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%s: %w", f.Path, store.ErrChanged)
	}
	return err
}
