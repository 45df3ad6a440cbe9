package l3gpu

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pipefs/pipefs/l3gpu/internal/device"
	"github.com/pipefs/pipefs/l3gpu/kernel"
)

// engine is a GPU with its program and its slots.
type engine struct {
	dev     device.Device
	program *program
	size    int64 // of a slot
	log     *slog.Logger
	// patience is how long a piece may take.
	patience time.Duration

	free chan *slot // those that are not in use
	all  []*slot
	lost chan struct{} // closed when a slot does not come back
	// cause is why, once lost is closed.
	cause error
	lose  sync.Once
	hung  atomic.Bool // a piece did not end
}

// slot is room for one piece of a batch, on the GPU and, laid out in the same way,
// here. It is made when it is first needed.
type slot struct {
	stream     device.Stream
	begin, end device.Event
	memory     device.Memory
	host       device.HostMemory
	// release has what has to be given back, the first thing taken first.
	release []func() error
}

// newEngine loads the program, and makes the first slot to see whether that works.
func newEngine(d device.Device, o Options) (*engine, error) {
	e := &engine{dev: d, size: o.slotBytes(), patience: o.Patience, log: o.Log, free: make(chan *slot, slots), lost: make(chan struct{})}
	var err error
	if e.program, err = loadProgram(d); err != nil {
		return nil, err
	}
	for range slots {
		s := new(slot)
		e.all = append(e.all, s)
		e.free <- s
	}
	first := <-e.free
	if err := first.make(d, e.size); err != nil {
		return nil, errors.Join(err, e.program.close())
	}
	e.free <- first
	return e, nil
}

// make takes what a slot needs, or nothing.
func (s *slot) make(d device.Device, size int64) (err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	if s.stream, err = d.NewStream(); err != nil {
		return err
	}
	s.release = append(s.release, s.stream.Free)
	for _, e := range []*device.Event{&s.begin, &s.end} {
		if *e, err = d.NewEvent(); err != nil {
			return err
		}
		s.release = append(s.release, (*e).Free)
	}
	if s.memory, err = d.Alloc(size); err != nil {
		free, total, _ := d.MemoryInfo()
		return fmt.Errorf("%d bytes on the GPU, of which %d of %d are free: %w", size, free, total, err)
	}
	s.release = append(s.release, s.memory.Free)
	if s.host, err = d.AllocHost(size); err != nil {
		return fmt.Errorf("%d bytes that the GPU can reach: %w", size, err)
	}
	s.release = append(s.release, s.host.Free)
	return nil
}

func (s *slot) close() error {
	var errs []error
	if s.stream != nil {
		// What is queued uses what is given back here.
		errs = append(errs, s.stream.Wait())
	}
	for i := len(s.release) - 1; i >= 0; i-- {
		errs = append(errs, s.release[i]())
	}
	*s = slot{}
	return errors.Join(errs...)
}

// tryTake returns a slot, or nil where there is none at the moment.
func (e *engine) tryTake() (*slot, error) {
	select {
	case s := <-e.free:
		return e.prepare(s)
	default:
		return nil, nil
	}
}

// take waits for a slot.
func (e *engine) take(ctx context.Context) (*slot, error) {
	for {
		select {
		case s := <-e.free:
			if s, err := e.prepare(s); s != nil || err != nil {
				return s, err
			}
		case <-e.lost:
			return nil, e.cause
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// prepare makes a slot that is not there yet. Where the memory does not suffice it
// returns nil, and the others have to do, of which the first is always there.
func (e *engine) prepare(s *slot) (*slot, error) {
	if s.host != nil {
		return s, nil
	}
	err := s.make(e.dev, e.size)
	switch {
	case err == nil:
		return s, nil
	case errors.Is(err, device.ErrLost):
		return nil, err
	}
	e.log.Info("less is decoded on the GPU at once, since its memory is used by others", "cause", err)
	return nil, nil
}

// give gives a slot back. What was queued on it must have ended.
func (e *engine) give(s *slot) { e.free <- s }

// wait waits for the end of what was queued, up to patience: callers must not hang where the
// GPU does. After an error the slot must not be used again, and the GPU is lost.
func (e *engine) wait(end func() error) error {
	if e.hung.Load() {
		<-e.lost
		return e.cause
	}
	ended := make(chan error, 1)
	go func() { ended <- end() }()
	timer := time.NewTimer(e.patience)
	defer timer.Stop()
	var err error
	select {
	case err = <-ended:
		if err == nil {
			return nil
		}
		if !errors.Is(err, device.ErrLost) {
			err = fmt.Errorf("%w: %w", device.ErrLost, err)
		}
	case <-timer.C:
		e.hung.Store(true)
		err = &device.Error{Call: "waiting for a launch", Text: fmt.Sprintf("no end after %v", e.patience), Kind: device.ErrLost}
	}
	e.lose.Do(func() {
		e.cause = err
		close(e.lost)
	})
	return err
}

// close frees everything; the engine must not be in use. A slot whose piece hangs is not
// freed: the GPU may still write there, and any call about it would wait for ever.
func (e *engine) close() error {
	if e.hung.Load() {
		return errors.New("the GPU does not answer; its memory goes with this process")
	}
	var errs []error
	for _, s := range e.all {
		errs = append(errs, s.close())
	}
	return errors.Join(append(errs, e.program.close(), e.dev.Close())...)
}

// program is that of package kernel, loaded.
type program struct {
	module device.Module

	mu      sync.Mutex
	entries map[string]device.Function // those that were needed so far
}

func loadProgram(d device.Device) (*program, error) {
	ptx, err := kernel.PTX(d.Info().Major)
	if err != nil {
		return nil, err
	}
	m, err := d.Load(ptx)
	if err != nil {
		return nil, fmt.Errorf("loading the program for the GPU, for which the driver has to be one for CUDA 12.2 or newer and is one for %s: %w", d.Info().CUDA(), err)
	}
	return &program{module: m, entries: map[string]device.Function{}}, nil
}

func (p *program) entry(name string) (device.Function, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f, ok := p.entries[name]
	if ok {
		return f, nil
	}
	f, err := p.module.Function(name)
	if err != nil {
		return nil, err
	}
	p.entries[name] = f
	return f, nil
}

// launch queues all launches of a piece.
func (p *program) launch(w *piece, s *slot) error {
	at := s.memory.Address()
	pictures := at + uint64(w.records)
	patches := pictures + uint64(len(w.pictures))*kernel.PictureLen
	for _, l := range w.plan.Launches {
		f, err := p.entry(l.Entry)
		if err != nil {
			return err
		}
		params := kernel.Params{
			Pictures: pictures, Patches: patches + uint64(l.First)*kernel.PatchLen, Count: uint32(l.Count), Statuses: at + uint64(w.statuses),
		}
		err = s.stream.Launch(f, device.Launch{Grid: uint32(l.Blocks), Block: kernel.Threads, Params: params.Bytes()})
		if err != nil {
			return fmt.Errorf("%s: %w", l.Entry, err)
		}
	}
	return nil
}

func (p *program) close() error { return p.module.Free() }
