package driver

import (
	"sync/atomic"
	"unsafe"

	"github.com/pipefs/pipefs/l3gpu/internal/device"
)

// hostPortable makes host memory known in every context: CU_MEMHOSTALLOC_PORTABLE.
const hostPortable = 1

// memory is a device.Memory. A second Free does nothing.
type memory struct {
	gpu     *gpu
	address uint64
	size    int64
	freed   atomic.Bool
}

// Alloc implements [device.Device].
func (g *gpu) Alloc(size int64) (device.Memory, error) {
	m := &memory{gpu: g, size: size}
	err := g.do("cuMemAlloc", func() result { return g.api.MemAlloc(&m.address, uintptr(size)) })
	if err != nil {
		return nil, err
	}
	return m, nil
}

func (m *memory) Address() uint64 { return m.address }
func (m *memory) Size() int64     { return m.size }

func (m *memory) Free() error {
	if m.freed.Swap(true) {
		return nil
	}
	return m.gpu.do("cuMemFree", func() result { return m.gpu.api.MemFree(m.address) })
}

// hostMemory is a device.HostMemory. It is not Go's: the collector neither moves
// nor frees it.
type hostMemory struct {
	gpu   *gpu
	p     unsafe.Pointer
	size  int64
	freed atomic.Bool
}

// AllocHost implements [device.Device].
func (g *gpu) AllocHost(size int64) (device.HostMemory, error) {
	m := &hostMemory{gpu: g, size: size}
	err := g.do("cuMemHostAlloc", func() result { return g.api.MemHostAlloc(&m.p, uintptr(size), hostPortable) })
	if err != nil {
		return nil, err
	}
	return m, nil
}

func (m *hostMemory) Bytes() []byte { return unsafe.Slice((*byte)(m.p), m.size) }

func (m *hostMemory) Free() error {
	if m.freed.Swap(true) {
		return nil
	}
	return m.gpu.do("cuMemFreeHost", func() result { return m.gpu.api.MemFreeHost(m.p) })
}

// at is the address of n bytes, which have to be within the memory: libcuda would
// write anywhere.
func (m *hostMemory) at(call string, offset, n int64) (unsafe.Pointer, error) {
	if offset < 0 || n < 0 || offset > m.size-n {
		return nil, &device.Error{Call: call, Text: "bytes outside of the host memory"}
	}
	return unsafe.Add(m.p, offset), nil
}
