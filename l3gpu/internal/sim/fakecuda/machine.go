package fakecuda

import (
	"errors"
	"fmt"
	"strings"

	"github.com/pipefs/pipefs/l3gpu/internal/device"
	"github.com/pipefs/pipefs/l3gpu/internal/sim/devicetest"
	"github.com/pipefs/pipefs/l3gpu/kernel"
)

// Machine is a devicetest.Machine, for tests within one process.
type Machine struct {
	next   uint64
	memory map[uint64][]byte
}

// NewMachine returns one without memory.
func NewMachine() *Machine { return &Machine{next: 1 << 32, memory: map[uint64][]byte{}} }

// Load implements [devicetest.Machine].
func (m *Machine) Load(ptx string) (devicetest.Program, error) {
	if !strings.Contains(ptx, ".version") {
		return nil, errors.New("no PTX")
	}
	return m, nil
}

// Has implements [devicetest.Program].
func (m *Machine) Has(name string) bool { return strings.HasPrefix(name, "l3v") }

// Launch implements [devicetest.Program].
func (m *Machine) Launch(_ string, l device.Launch) error {
	var p kernel.Params
	if err := read(l.Params, &p); err != nil {
		return err
	}
	count, warps := p.Count, uint32(kernel.Threads/32)
	if l.Block != [3]uint32{kernel.Threads, 1, 1} || l.Grid != [3]uint32{(count + warps - 1) / warps, 1, 1} {
		return fmt.Errorf("%d patches with a grid of %v blocks of %v threads", count, l.Grid, l.Block)
	}
	return Launch(l.Params, m.at)
}

// Alloc implements [devicetest.Machine].
func (m *Machine) Alloc(size int64) (uint64, error) {
	at := m.next
	m.next += uint64(size) + 1<<30
	m.memory[at] = make([]byte, size)
	return at, nil
}

// Free implements [devicetest.Machine].
func (m *Machine) Free(at uint64) error {
	if _, ok := m.memory[at]; !ok {
		return errors.New("no such memory")
	}
	delete(m.memory, at)
	return nil
}

// at is memory from an address to its end, or nil.
func (m *Machine) at(address uint64) []byte {
	for begin, b := range m.memory {
		if address >= begin && address < begin+uint64(len(b)) {
			return b[address-begin:]
		}
	}
	return nil
}

func (m *Machine) within(at uint64, n int) ([]byte, error) {
	b := m.at(at)
	if len(b) < n {
		return nil, errors.New("memory of nobody")
	}
	return b[:n], nil
}

// Write implements [devicetest.Machine].
func (m *Machine) Write(at uint64, b []byte) error {
	to, err := m.within(at, len(b))
	copy(to, b)
	return err
}

// Read implements [devicetest.Machine].
func (m *Machine) Read(at uint64, b []byte) error {
	from, err := m.within(at, len(b))
	copy(b, from)
	return err
}
