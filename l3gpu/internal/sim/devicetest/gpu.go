// Package devicetest is a device for tests: it computes on a Machine, works through
// its streams on goroutines of their own, fails where it is told to, and counts what
// was taken and what was given back.
//
// # Nouns
//
// A Machine is what holds the device's memory and runs programs. A GPU is the
// device.Device over it. A call is any call of it, or of what comes from it, that the
// real one could fail; calls are counted from 1.
package devicetest

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/pipefs/pipefs/l3gpu/internal/device"
)

// Machine runs programs on memory of its own. Its errors are faults: the device is
// lost with the first. It is called by one goroutine at a time.
type Machine interface {
	Load(ptx string) (Program, error)
	Alloc(size int64) (address uint64, err error)
	Free(address uint64) error
	Write(address uint64, b []byte) error
	Read(address uint64, b []byte) error
}

// Program is one that was loaded into a Machine.
type Program interface {
	Has(function string) bool
	Launch(function string, l device.Launch) error
}

// Options of New. What is zero does not happen.
type Options struct {
	Machine Machine
	Memory  int64 // of the device; 0 is 1 GiB
	// FailAt is the call that fails, and Kind with what: device.ErrLost also makes
	// all later calls fail but Close.
	FailAt int
	Kind   error
	// FailCall is the name of calls that fail each time: "Launch".
	FailCall string
	// LoseAt is the launch that loses the device while it runs: what waits for it,
	// and every call after that, fails.
	LoseAt int
	// HangAt is the launch that does not end before Unhang.
	HangAt int
	// Slow is how long each launch takes at least.
	Slow time.Duration
}

// GPU is a device.Device.
type GPU struct {
	o     Options
	clock time.Time

	machine sync.Mutex // held while o.Machine works
	hang    chan struct{}

	mu       sync.Mutex
	calls    int
	launches int
	lost     bool
	closed   bool
	live     map[any]int64 // what was taken and not given back, with its bytes
	bytes    int64         // of live
	peak     int64
	misuse   []error
}

var _ device.Device = (*GPU)(nil)

// New returns a device.
func New(o Options) *GPU {
	if o.Memory == 0 {
		o.Memory = 1 << 30
	}
	if o.Kind == nil {
		o.Kind = device.ErrMemory
	}
	return &GPU{o: o, clock: time.Now(), hang: make(chan struct{}), live: map[any]int64{}}
}

// Calls is how many there were.
func (g *GPU) Calls() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.calls
}

// Peak is the most memory that was taken at one time, the device's and the host's.
func (g *GPU) Peak() int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.peak
}

// Unhang ends the launch of HangAt.
func (g *GPU) Unhang() { close(g.hang) }

// Check returns an error unless the device was closed, everything was given back
// before, and nothing was misused.
func (g *GPU) Check() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	errs := g.misuse
	if !g.closed {
		errs = append(errs, errors.New("the device was not closed"))
	}
	return errors.Join(errs...)
}

func (g *GPU) misused(format string, args ...any) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.misuse = append(g.misuse, fmt.Errorf(format, args...))
}

// call counts a call, and fails it if it is its turn.
func (g *GPU) call(name string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.calls++
	if g.closed {
		g.misuse = append(g.misuse, fmt.Errorf("%s after Close", name))
	}
	kind := g.o.Kind
	switch {
	case g.lost:
		kind = device.ErrLost
	case g.calls != g.o.FailAt && name != g.o.FailCall:
		return nil
	}
	g.lost = g.lost || errors.Is(kind, device.ErrLost)
	return &device.Error{Call: name, Code: "TEST", Text: "told to fail", Kind: kind}
}

// lose is what a fault in a launch or copy does.
func (g *GPU) lose() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.lost = true
}

// err is the state of the device.
func (g *GPU) err(call string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.lost {
		return &device.Error{Call: call, Code: "TEST", Text: "lost", Kind: device.ErrLost}
	}
	return nil
}

func (g *GPU) take(what any, bytes int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.live[what] = bytes
	g.bytes += bytes
	g.peak = max(g.peak, g.bytes)
}

// drop is a thing that is given back, also where the call that does so fails. It
// reports whether it was there.
func (g *GPU) drop(what any) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	bytes, ok := g.live[what]
	if !ok {
		g.misuse = append(g.misuse, fmt.Errorf("a %T was given back twice", what))
	}
	delete(g.live, what)
	g.bytes -= bytes
	return ok
}

// Info implements [device.Device].
func (g *GPU) Info() device.Info {
	return device.Info{Name: "Test GPU", Major: 7, Minor: 5, Driver: 12040}
}

// MemoryInfo implements [device.Device].
func (g *GPU) MemoryInfo() (free, total int64, err error) {
	return g.o.Memory, g.o.Memory, g.call("MemoryInfo")
}

// Close implements [device.Device]. As with the real one everything goes, host
// memory too.
func (g *GPU) Close() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		g.misuse = append(g.misuse, errors.New("Close twice"))
		return nil
	}
	g.closed = true
	for what := range g.live {
		g.misuse = append(g.misuse, fmt.Errorf("a %T was not given back", what))
		if m, ok := what.(*hostMemory); ok {
			_ = syscall.Munmap(m.b)
		}
	}
	return nil
}

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
