package l3gpu

import (
	"context"
	"errors"
	"fmt"

	"github.com/pipefs/pipefs/l3gpu/internal/device"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/l3"
)

// ErrLost is returned where a batch has to stay on the GPU, and the GPU is lost.
var ErrLost = device.ErrLost

// DecodeBatch decodes pictures of the same size and mode into one piece of memory.
// The first list of errors is that of the pictures, in their order; it is nil where
// there is none.
func (b *Backend) DecodeBatch(ctx context.Context, samples []*l3.Samples, dst []byte, o BatchOptions) ([]error, error) {
	s, err := o.shapeOf(samples)
	if err == nil {
		err = s.fits(dst, len(samples))
	}
	if err != nil {
		return nil, err
	}
	return b.batch(ctx, samples, func(i int) task { return task{dst: o.target(dst, s, i), numbers: o.Numbers} })
}

// Tensor is a batch on the GPU.
type Tensor struct {
	backend  *Backend
	memory   device.Memory
	exported bool // to other processes
}

// Address is where it begins, for other users of the GPU's primary context.
func (t *Tensor) Address() uint64 { return t.memory.Address() }

// Size is how many bytes it has.
func (t *Tensor) Size() int64 { return t.memory.Size() }

// Free gives its memory back. It may not be in use.
func (t *Tensor) Free() error {
	b := t.backend
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, ok := b.tensors[t]; !ok {
		return nil // it went with the backend
	}
	delete(b.tensors, t)
	b.tensorBytes -= t.Size()
	return b.free(t)
}

// free gives memory back, but asks nothing of a GPU that does not answer.
func (b *Backend) free(t *Tensor) error {
	if b.held != nil && b.held.hung.Load() {
		return nil
	}
	return t.memory.Free()
}

// DecodeTensor decodes pictures of the same size and mode, and leaves the numbers on
// the GPU, in memory that Options.Tensors bounds. A picture that the GPU cannot decode
// has an error; its place in the tensor then holds nothing of use.
func (b *Backend) DecodeTensor(ctx context.Context, samples []*l3.Samples, o BatchOptions) (*Tensor, []error, error) {
	s, err := o.shapeOf(samples)
	if err != nil {
		return nil, nil, err
	}
	t, err := b.newTensor(int64(len(samples)) * int64(s.bytes()))
	if err != nil {
		return nil, nil, err
	}
	errs, err := b.batch(ctx, samples, func(i int) task {
		return task{dst: o.target(nil, s, i), numbers: o.Numbers, address: t.Address()}
	})
	if err != nil {
		return nil, nil, errors.Join(err, t.Free())
	}
	return t, errs, nil
}

func (b *Backend) newTensor(size int64) (*Tensor, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.closed:
		return nil, ErrClosed
	case b.engine == nil:
		return nil, ErrLost
	case size < 1:
		return nil, transcode.Errorf(transcode.ErrInternal, "a batch without pictures")
	case b.tensorBytes+size > b.o.Tensors:
		return nil, fmt.Errorf("%w: a tensor of %d bytes beside others of %d, of %d that were set aside for them", ErrMemory, size, b.tensorBytes, b.o.Tensors)
	}
	m, err := b.engine.dev.Alloc(size)
	if err != nil {
		return nil, fmt.Errorf("a tensor of %d bytes: %w", size, err)
	}
	t := &Tensor{backend: b, memory: m}
	b.tensors[t] = struct{}{}
	b.tensorBytes += size
	return t, nil
}

// freeTensors gives all of them back, under the lock.
func (b *Backend) freeTensors() error {
	var errs []error
	for t := range b.tensors {
		errs = append(errs, b.free(t))
	}
	clear(b.tensors)
	b.tensorBytes = 0
	return errors.Join(errs...)
}

// batch does the tasks of a batch.
func (b *Backend) batch(ctx context.Context, samples []*l3.Samples, of func(i int) task) ([]error, error) {
	tasks := make([]task, len(samples))
	for i, s := range samples {
		tasks[i] = of(i)
		tasks[i].samples = s
	}
	if err := b.decode(ctx, tasks); err != nil {
		return nil, err
	}
	var errs []error
	for i := range tasks {
		if tasks[i].err == nil {
			continue
		}
		if errs == nil {
			errs = make([]error, len(tasks))
		}
		errs[i] = tasks[i].err
	}
	return errs, nil
}
