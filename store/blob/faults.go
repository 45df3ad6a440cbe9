package blob

import (
	"context"
	"io"
	"iter"
)

// Operations of a place, for [Faults] and for messages.
const (
	OpGet    = "get"
	OpStat   = "stat"
	OpList   = "list"
	OpPut    = "put"
	OpDelete = "delete"
)

// Faults is a place that fails as it is told, for tests of those who use one. What is nil does
// nothing. To replace an object under a reader, let Before do it, in the place that is wrapped.
type Faults struct {
	Objects
	// Before is asked before an operation. An operation that it gives an error is not done.
	Before func(op, name string) error
	// After is asked after one that succeeded. Its error takes the place of the answer.
	After func(op, name string) error
	// Damage changes the bytes that a read from an offset on has got.
	Damage func(name string, off int64, b []byte)
}

var _ Objects = (*Faults)(nil)

func (f *Faults) do(op, name string, do func() error) error {
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

// Stat implements [Objects].
func (f *Faults) Stat(ctx context.Context, name string) (i Info, err error) {
	err = f.do(OpStat, name, func() (err error) {
		i, err = f.Objects.Stat(ctx, name)
		return err
	})
	if err != nil {
		return Info{}, err
	}
	return i, nil
}

// List implements [Objects]. Each page is an operation.
func (f *Faults) List(ctx context.Context, prefix string, deep bool) iter.Seq2[[]Info, error] {
	return func(yield func([]Info, error) bool) {
		for page, err := range f.Objects.List(ctx, prefix, deep) {
			if err == nil {
				err = f.do(OpList, prefix, func() error { return nil })
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

// ReadAt implements [Objects].
func (f *Faults) ReadAt(ctx context.Context, name string, v Version, b []byte, off int64) error {
	return f.do(OpGet, name, func() error {
		err := f.Objects.ReadAt(ctx, name, v, b, off)
		if err == nil && f.Damage != nil {
			f.Damage(name, off, b)
		}
		return err
	})
}

// PutIfAbsent implements [Objects].
func (f *Faults) PutIfAbsent(ctx context.Context, name string, body io.ReaderAt, size int64) (v Version, err error) {
	err = f.do(OpPut, name, func() (err error) {
		v, err = f.Objects.PutIfAbsent(ctx, name, body, size)
		return err
	})
	if err != nil {
		return "", err
	}
	return v, nil
}

// PutIfMatch implements [Objects].
func (f *Faults) PutIfMatch(ctx context.Context, name string, is Version, data []byte) (v Version, err error) {
	err = f.do(OpPut, name, func() (err error) {
		v, err = f.Objects.PutIfMatch(ctx, name, is, data)
		return err
	})
	if err != nil {
		return "", err
	}
	return v, nil
}

// Delete implements [Objects].
func (f *Faults) Delete(ctx context.Context, name string) error {
	return f.do(OpDelete, name, func() error { return f.Objects.Delete(ctx, name) })
}
