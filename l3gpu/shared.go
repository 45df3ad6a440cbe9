package l3gpu

import (
	"context"
	"fmt"

	"github.com/pipefs/pipefs/l3gpu/internal/device"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/l3"
)

// Handle is what another process needs to open memory of the GPU.
type Handle = device.Handle

// Identity names a GPU in the same way for all processes. The numbers that CUDA gives to GPUs
// differ between processes.
type Identity struct {
	UUID string // "GPU-8f6d…"
	PCI  string // "0000:65:00.0"
	Name string
}

// Identity is that of the backend's GPU.
func (b *Backend) Identity() Identity {
	return Identity{UUID: b.info.UUID, PCI: b.info.PCI, Name: b.info.Name}
}

// NewTensor takes memory on the GPU to decode to, of what Options.Tensors set aside.
func (b *Backend) NewTensor(size int64) (*Tensor, error) { return b.newTensor(size) }

// Export lets other processes of this user open a tensor. From then on only Free frees its
// memory. The caller of Free has to know that no other process has it open: CUDA does not
// define what happens otherwise. Memory that was not freed is freed with this process, even
// if the backend is closed or given up.
func (t *Tensor) Export() (Handle, error) {
	b := t.backend
	e, err := b.enter()
	if err != nil {
		return Handle{}, err
	}
	if e == nil {
		return Handle{}, ErrLost
	}
	h, err := t.memory.Export()
	if err == nil {
		b.mu.Lock()
		t.exported = true
		b.mu.Unlock()
	}
	b.leave(nil)
	return h, err
}

// exports reports whether there is memory that other processes may have open, under
// the lock.
func (b *Backend) exports() bool {
	for t := range b.tensors {
		if t.exported {
			return true
		}
	}
	return false
}

// Placed is a picture, what becomes of it, and where in a tensor that begins.
type Placed struct {
	Samples *l3.Samples
	BatchOptions
	Offset int64
}

// Size is how many bytes the picture takes in a tensor.
func (p *Placed) Size() (int64, error) {
	s, err := p.shapeOf([]*l3.Samples{p.Samples})
	return int64(s.bytes()), err
}

// DecodePlaced decodes pictures of any sizes and kinds to their places in a tensor, and
// returns when they are there: other processes see them. A picture that the GPU cannot
// decode has an error; its place then holds nothing of use. Places may not overlap.
func (b *Backend) DecodePlaced(ctx context.Context, t *Tensor, pictures []Placed) ([]error, error) {
	samples, tasks := make([]*l3.Samples, len(pictures)), make([]task, len(pictures))
	for i := range pictures {
		p := &pictures[i]
		size, err := p.Size()
		if err != nil {
			return nil, err
		}
		if p.Offset < 0 || p.Offset > t.Size()-size || p.Offset%int64(p.Type.size(p.Samples.Mode.Depth())) != 0 {
			return nil, transcode.Errorf(transcode.ErrInternal, "a picture of %d bytes at %d of a tensor of %d", size, p.Offset, t.Size())
		}
		s, _ := p.shapeOf([]*l3.Samples{p.Samples}) // Size was given the same
		samples[i] = p.Samples
		tasks[i] = task{dst: p.target(nil, s, 0), numbers: p.Numbers, address: t.Address() + uint64(p.Offset)}
	}
	b.mu.Lock()
	_, ours := b.tensors[t]
	b.mu.Unlock()
	if !ours {
		return nil, fmt.Errorf("decoding to a tensor that was given back: %w", ErrClosed)
	}
	return b.batch(ctx, samples, func(i int) task { return tasks[i] })
}

// Shared returns the GPU for those who have no use for the processor, opened now if it
// was not before. Whether pictures that come back here are decoded on it is a decision
// of its own. StartOptions.Tensors is the memory that they may use.
func (s *Starting) Shared() (*Backend, error) {
	b, err := s.open()
	switch {
	case err != nil:
		return nil, err
	case b.lost.Load():
		return nil, fmt.Errorf("%s: %w", b.info.Name, ErrLost)
	}
	return b, nil
}
