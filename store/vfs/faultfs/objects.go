package faultfs

import (
	"context"
	"io"
	"iter"

	"github.com/pipefs/pipefs/store/blob"
)

// Objects is a place whose operations fail as Before says. To replace an object under a reader, let Before do it, in
// the place that is wrapped.
type Objects struct {
	blob.Objects
	// Before is asked before an operation. An operation that it gives an error is not done. Nil does nothing.
	Before func(op, name string) error
}

var _ blob.Objects = (*Objects)(nil)

func (f *Objects) before(op, name string) error {
	if f.Before == nil {
		return nil
	}
	return f.Before(op, name)
}

// Stat implements [blob.Objects].
func (f *Objects) Stat(ctx context.Context, name string) (blob.Info, error) {
	if err := f.before(blob.OpStat, name); err != nil {
		return blob.Info{}, err
	}
	return f.Objects.Stat(ctx, name)
}

// List implements [blob.Objects].
func (f *Objects) List(ctx context.Context, prefix string, deep bool) iter.Seq2[[]blob.Info, error] {
	if err := f.before(blob.OpList, prefix); err != nil {
		return func(yield func([]blob.Info, error) bool) { yield(nil, err) }
	}
	return f.Objects.List(ctx, prefix, deep)
}

// ReadAt implements [blob.Objects].
func (f *Objects) ReadAt(ctx context.Context, name string, v blob.Version, b []byte, off int64) error {
	if err := f.before(blob.OpGet, name); err != nil {
		return err
	}
	return f.Objects.ReadAt(ctx, name, v, b, off)
}

// PutIfAbsent implements [blob.Objects].
func (f *Objects) PutIfAbsent(ctx context.Context, name string, body io.ReaderAt, size int64) (blob.Version, error) {
	if err := f.before(blob.OpPut, name); err != nil {
		return "", err
	}
	return f.Objects.PutIfAbsent(ctx, name, body, size)
}

// PutIfMatch implements [blob.Objects].
func (f *Objects) PutIfMatch(ctx context.Context, name string, is blob.Version, data []byte) (blob.Version, error) {
	if err := f.before(blob.OpPut, name); err != nil {
		return "", err
	}
	return f.Objects.PutIfMatch(ctx, name, is, data)
}

// Delete implements [blob.Objects].
func (f *Objects) Delete(ctx context.Context, name string) error {
	if err := f.before(blob.OpDelete, name); err != nil {
		return err
	}
	return f.Objects.Delete(ctx, name)
}
