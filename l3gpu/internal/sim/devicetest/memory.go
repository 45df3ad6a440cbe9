package devicetest

import (
	"errors"
	"slices"
	"syscall"

	"github.com/pipefs/pipefs/l3gpu/internal/device"
)

type memory struct {
	gpu     *GPU
	address uint64
	size    int64
}

// Alloc implements [device.Device].
func (g *GPU) Alloc(size int64) (device.Memory, error) {
	if err := g.call("Alloc"); err != nil {
		return nil, err
	}
	g.machine.Lock()
	defer g.machine.Unlock()
	address, err := g.o.Machine.Alloc(size)
	if err != nil || size > g.o.Memory {
		return nil, &device.Error{Call: "Alloc", Kind: device.ErrMemory}
	}
	m := &memory{g, address, size}
	g.take(m, size)
	return m, nil
}

func (m *memory) Address() uint64 { return m.address }
func (m *memory) Size() int64     { return m.size }

func (m *memory) Free() error {
	err := m.gpu.call("Memory.Free")
	if m.gpu.drop(m) {
		m.gpu.machine.Lock()
		defer m.gpu.machine.Unlock()
		err = errors.Join(err, m.gpu.o.Machine.Free(m.address))
	}
	return err
}

// hostMemory is mapped and unmapped: who uses it after Free gets a fault.
type hostMemory struct {
	gpu *GPU
	b   []byte
}

// AllocHost implements [device.Device].
func (g *GPU) AllocHost(size int64) (device.HostMemory, error) {
	if err := g.call("AllocHost"); err != nil {
		return nil, err
	}
	b, err := syscall.Mmap(-1, 0, int(size), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		return nil, &device.Error{Call: "AllocHost", Text: err.Error(), Kind: device.ErrMemory}
	}
	m := &hostMemory{g, b}
	g.take(m, size)
	return m, nil
}

func (m *hostMemory) Bytes() []byte { return m.b }

func (m *hostMemory) Free() error {
	err := m.gpu.call("HostMemory.Free")
	if m.gpu.drop(m) {
		err = errors.Join(err, syscall.Munmap(m.b))
	}
	return err
}

type module struct {
	gpu     *GPU
	program Program
}

// Load implements [device.Device].
func (g *GPU) Load(ptx []byte) (device.Module, error) {
	if err := g.call("Load"); err != nil {
		return nil, err
	}
	g.machine.Lock()
	defer g.machine.Unlock()
	p, err := g.o.Machine.Load(string(slices.Clone(ptx)))
	if err != nil {
		return nil, &device.Error{Call: "Load", Text: err.Error()}
	}
	m := &module{g, p}
	g.take(m, 0)
	return m, nil
}

func (m *module) Free() error {
	err := m.gpu.call("Module.Free")
	m.gpu.drop(m)
	return err
}

type function struct {
	module *module
	name   string
}

func (m *module) Function(name string) (device.Function, error) {
	if err := m.gpu.call("Function"); err != nil {
		return nil, err
	}
	if !m.program.Has(name) {
		return nil, &device.Error{Call: "Function", Text: "there is no " + name}
	}
	return &function{m, name}, nil
}

func (f *function) Name() string { return f.name }
