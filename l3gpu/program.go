package l3gpu

import (
	"fmt"
	"sync"

	"github.com/pipefs/pipefs/l3gpu/internal/device"
	"github.com/pipefs/pipefs/l3gpu/kernel"
)

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
		err = s.stream.Launch(f, device.Launch{Grid: [3]uint32{uint32(l.Blocks)}, Block: [3]uint32{kernel.Threads}, Params: params.Bytes()})
		if err != nil {
			return fmt.Errorf("%s: %w", l.Entry, err)
		}
	}
	return nil
}

func (p *program) close() error { return p.module.Free() }
