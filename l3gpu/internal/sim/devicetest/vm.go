package devicetest

import (
	"fmt"
	"sync"

	"github.com/pipefs/pipefs/l3gpu/internal/device"
	"github.com/pipefs/pipefs/l3gpu/internal/sim/ptxvm"
)

// VM is a Machine that executes PTX.
type VM struct{ d *ptxvm.Device }

// NewVM returns one whose launches use so many goroutines.
func NewVM(workers int) *VM {
	return &VM{ptxvm.NewDevice(ptxvm.Options{Workers: workers})}
}

// Alloc implements [Machine]. Memory has something in it, as that of a device has;
// what programs read without having written it is for their own tests to find.
func (m *VM) Alloc(size int64) (uint64, error) {
	address, err := m.d.Alloc(int(size), 256)
	if err != nil {
		return 0, err
	}
	return address, m.d.Fill(address, 0xa5, int(size))
}

// Free implements [Machine].
func (m *VM) Free(address uint64) error { return m.d.Free(address) }

// Write implements [Machine].
func (m *VM) Write(address uint64, b []byte) error { return m.d.Write(address, b) }

// Read implements [Machine].
func (m *VM) Read(address uint64, b []byte) error { return m.d.Read(address, b) }

// parsed has the programs that were loaded before: *ptxvm.Module by text.
var parsed sync.Map

// Load implements [Machine].
func (m *VM) Load(ptx string) (Program, error) {
	known, ok := parsed.Load(ptx)
	if !ok {
		parse, err := ptxvm.Parse(ptx)
		if err != nil {
			return nil, err
		}
		known, _ = parsed.LoadOrStore(ptx, parse)
	}
	p, err := m.d.Load(known.(*ptxvm.Module))
	if err != nil {
		return nil, err
	}
	return program{p}, nil
}

type program struct{ p *ptxvm.Program }

func (p program) Has(function string) bool { return p.p.Module().Has(function) }

func (p program) Launch(function string, l device.Launch) error {
	var err error
	if l.Grid[1]*l.Grid[2]*l.Block[1]*l.Block[2] != 1 || l.Shared != 0 {
		err = fmt.Errorf("a grid of %v blocks of %v threads and %d bytes", l.Grid, l.Block, l.Shared)
	} else {
		_, err = p.p.Launch(function, l.Grid[0], l.Block[0], l.Params)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", function, err)
	}
	return nil
}
