package l3gpu

import (
	"context"
	"errors"
	"fmt"

	"github.com/pipefs/pipefs/l3gpu/internal/device"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/l3"
)

// ErrLost is returned where pictures have to stay on the GPU, and the GPU is lost.
var ErrLost = device.ErrLost

// Tensor is memory on the GPU for pictures.
type Tensor struct {
	backend *Backend
	memory  device.Memory
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

// NewTensor takes memory on the GPU, of what Options.Tensors set aside.
func (b *Backend) NewTensor(size int64) (*Tensor, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.closed:
		return nil, ErrClosed
	case b.engine == nil:
		return nil, ErrLost
	case size < 1:
		return nil, transcode.Errorf(transcode.ErrInternal, "a tensor of %d bytes", size)
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

// Placed is a picture, what its samples become, and where in a tensor they go: HWC, or CHW if
// Planar, from Offset on.
type Placed struct {
	Samples *l3.Samples
	Numbers
	Planar bool
	Offset int64
}

// Size is how many bytes the picture takes in a tensor.
func (p *Placed) Size() (int64, error) {
	if err := p.check(p.Samples.Mode); err != nil {
		return 0, err
	}
	s := p.Samples
	return int64(s.Width) * int64(s.Height) * int64(s.Mode.Channels()*p.Type.size(s.Mode.Depth())), nil
}

func (p *Placed) target() l3.Target {
	s, size := p.Samples, p.Type.size(p.Samples.Mode.Depth())
	if p.Planar {
		return l3.Planar(nil, s.Width, s.Height, size)
	}
	return l3.Interleaved(nil, s.Width, s.Mode.Channels(), size)
}

// DecodePlaced decodes pictures of any sizes and kinds to their places in a tensor, and returns
// when they are there, so that other processes see them. The first list of errors is that of
// the pictures, in their order; it is nil where there is none. A picture that the GPU cannot
// decode has an error, and its place then holds nothing of use. Places may not overlap.
func (b *Backend) DecodePlaced(ctx context.Context, t *Tensor, pictures []Placed) ([]error, error) {
	tasks := make([]task, len(pictures))
	for i := range pictures {
		p := &pictures[i]
		size, err := p.Size()
		if err != nil {
			return nil, err
		}
		if p.Offset < 0 || p.Offset > t.Size()-size || p.Offset%int64(p.Type.size(p.Samples.Mode.Depth())) != 0 {
			return nil, transcode.Errorf(transcode.ErrInternal, "a picture of %d bytes at %d of a tensor of %d", size, p.Offset, t.Size())
		}
		tasks[i] = task{samples: p.Samples, dst: p.target(), numbers: p.Numbers, address: t.Address() + uint64(p.Offset)}
	}
	b.mu.Lock()
	_, ours := b.tensors[t]
	b.mu.Unlock()
	if !ours {
		return nil, fmt.Errorf("decoding to a tensor that was given back: %w", ErrClosed)
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
