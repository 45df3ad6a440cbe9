package faultfs

import (
	"context"
	"io"
	"iter"

	"github.com/pipefs/pipefs/store/blob"
)

// Objects is a place that fails as it is told. What is nil does
// nothing. To replace an object under a reader, let Before do it, in the place that is wrapped.
type Objects struct {
	blob.Objects
	// Before is asked before an operation. An operation that it gives an error is not done.
	Before func(op, name string) error
	// After is asked after one that succeeded. Its error takes the place of the answer.
	After func(op, name string) error
	// Damage changes the bytes that a read from an offset on has got.
	Damage func(name string, off int64, b []byte)
}

var _ blob.Objects = (*Objects)(nil)

func (f *Objects) do(op, name string, do func() error) error {
	if f.Before != nil {
		if err := f.Before(op, name); err != nil {
			return err
		}
	}
	if err := do(); err != nil || f.After == nil {
		return err
	}
	return f.After(op, name)
}

// Stat implements [blob.Objects].
func (f *Objects) Stat(ctx context.Context, name string) (i blob.Info, err error) {
	err = f.do(blob.OpStat, name, func() (err error) {
		i, err = f.Objects.Stat(ctx, name)
		return err
	})
	if err != nil {
		return blob.Info{}, err
	}
	return i, nil
}

// List implements [blob.Objects]. Each page is an operation.
func (f *Objects) List(ctx context.Context, prefix string, deep bool) iter.Seq2[[]blob.Info, error] {
	return func(yield func([]blob.Info, error) bool) {
		for page, err := range f.Objects.List(ctx, prefix, deep) {
			if err == nil {
				err = f.do(blob.OpList, prefix, func() error { return nil })
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(page, nil) {
				return
			}
		}
	}
}

// ReadAt implements [blob.Objects].
func (f *Objects) ReadAt(ctx context.Context, name string, v blob.Version, b []byte, off int64) error {
	return f.do(blob.OpGet, name, func() error {
		err := f.Objects.ReadAt(ctx, name, v, b, off)
		if err == nil && f.Damage != nil {
			f.Damage(name, off, b)
		}
		return err
	})
}

// PutIfAbsent implements [blob.Objects].
func (f *Objects) PutIfAbsent(ctx context.Context, name string, body io.ReaderAt, size int64) (v blob.Version, err error) {
	err = f.do(blob.OpPut, name, func() (err error) {
		v, err = f.Objects.PutIfAbsent(ctx, name, body, size)
		return err
	})
	if err != nil {
		return "", err
	}
	return v, nil
}

// PutIfMatch implements [blob.Objects].
func (f *Objects) PutIfMatch(ctx context.Context, name string, is blob.Version, data []byte) (v blob.Version, err error) {
	err = f.do(blob.OpPut, name, func() (err error) {
		v, err = f.Objects.PutIfMatch(ctx, name, is, data)
		return err
	})
	if err != nil {
		return "", err
	}
	return v, nil
}

// Delete implements [blob.Objects].
func (f *Objects) Delete(ctx context.Context, name string) error {
	return f.do(blob.OpDelete, name, func() error { return f.Objects.Delete(ctx, name) })
}
