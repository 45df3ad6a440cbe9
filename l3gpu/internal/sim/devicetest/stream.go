package devicetest

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/pipefs/pipefs/l3gpu/internal/device"
	"github.com/pipefs/pipefs/l3gpu/internal/sim/ptxvm"
)

// stream is a goroutine that does one thing after another, while the caller goes on.
type stream struct {
	gpu   *GPU
	queue chan func()
	done  sync.WaitGroup
}

// NewStream implements [device.Device].
func (g *GPU) NewStream() (device.Stream, error) {
	if err := g.call("NewStream"); err != nil {
		return nil, err
	}
	s := &stream{gpu: g, queue: make(chan func(), 1<<10)}
	g.take(s, 0)
	s.done.Go(func() {
		for f := range s.queue {
			f()
		}
	})
	return s, nil
}

// push queues what a working device does, on its memory if it is told to.
func (s *stream) push(name string, f func() error) error {
	if err := s.gpu.call(name); err != nil {
		return err
	}
	s.queue <- func() {
		if s.gpu.err(name) != nil {
			return
		}
		s.gpu.machine.Lock()
		err := f()
		s.gpu.machine.Unlock()
		if err != nil {
			s.gpu.misused("%s: %w", name, err)
			s.gpu.lose()
		}
	}
	return nil
}

func (s *stream) Upload(dst uint64, src device.HostMemory, offset, n int64) error {
	b := src.(*hostMemory).b[offset : offset+n]
	return s.push("Upload", func() error { return s.gpu.o.Machine.Write(dst, b) })
}

func (s *stream) Download(dst device.HostMemory, offset int64, src uint64, n int64) error {
	b := dst.(*hostMemory).b[offset : offset+n]
	return s.push("Download", func() error { return s.gpu.o.Machine.Read(src, b) })
}

func (s *stream) Launch(f device.Function, l device.Launch) error {
	l.Params = slices.Clone(l.Params)
	g := s.gpu
	g.mu.Lock()
	g.launches++
	number := g.launches
	g.mu.Unlock()
	fn := f.(*function)
	hang := func() {
		if number == g.o.HangAt {
			<-g.hang
		}
		time.Sleep(g.o.Slow)
		if number == g.o.LoseAt {
			g.lose()
		}
	}
	if err := s.push("Launch", func() error {
		// Other streams go on meanwhile.
		g.machine.Unlock()
		hang()
		g.machine.Lock()
		return fn.module.program.Launch(fn.name, l)
	}); err != nil {
		return fmt.Errorf("%s: %w", fn.name, err)
	}
	return nil
}

func (s *stream) Record(e device.Event) error {
	if err := s.gpu.call("Record"); err != nil {
		return err
	}
	ev := e.(*event)
	came := make(chan struct{})
	ev.mu.Lock()
	ev.came = came
	ev.mu.Unlock()
	s.queue <- func() {
		ev.mu.Lock()
		ev.at = time.Since(s.gpu.clock)
		ev.mu.Unlock()
		close(came)
	}
	return nil
}

func (s *stream) Wait() error {
	err := s.gpu.call("Stream.Wait")
	came := make(chan struct{})
	s.queue <- func() { close(came) }
	<-came
	return cmp.Or(err, s.gpu.err("Stream.Wait"))
}

func (s *stream) Free() error {
	err := s.gpu.call("Stream.Free")
	if s.gpu.drop(s) {
		close(s.queue)
		s.done.Wait()
	}
	return err
}

type event struct {
	gpu  *GPU
	mu   sync.Mutex
	came chan struct{}
	at   time.Duration
}

// NewEvent implements [device.Device].
func (g *GPU) NewEvent() (device.Event, error) {
	if err := g.call("NewEvent"); err != nil {
		return nil, err
	}
	e := &event{gpu: g}
	g.take(e, 0)
	return e, nil
}

func (e *event) Wait() error {
	err := e.gpu.call("Event.Wait")
	e.mu.Lock()
	came := e.came
	e.mu.Unlock()
	if came != nil {
		<-came
	}
	return cmp.Or(err, e.gpu.err("Event.Wait"))
}

func (e *event) Since(earlier device.Event) (time.Duration, error) {
	if err := e.gpu.call("Since"); err != nil {
		return 0, err
	}
	before := earlier.(*event)
	before.mu.Lock()
	at := before.at
	before.mu.Unlock()
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.at - at, nil
}

func (e *event) Free() error {
	err := e.gpu.call("Event.Free")
	e.gpu.drop(e)
	return err
}

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
	if _, err := p.p.Launch(function, l.Grid, l.Block, l.Params); err != nil {
		return fmt.Errorf("%s: %w", function, err)
	}
	return nil
}
