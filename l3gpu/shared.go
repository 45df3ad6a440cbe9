package l3gpu

import (
	"fmt"

	"github.com/pipefs/pipefs/l3gpu/internal/device"
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

// Shared returns the GPU for callers that want pictures there, whether Decode uses it or not.
// It is opened now if it was not before. StartOptions.Tensors is the memory that they may use.
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
