package main

import (
	"log/slog"

	"github.com/pipefs/pipefs/internal/control"
	"github.com/pipefs/pipefs/internal/exit"
	"github.com/pipefs/pipefs/l3gpu/python"
	"github.com/pipefs/pipefs/l3gpu/share"
)

// maxShare is how many processes may share a GPU: more than anybody has on one.
const maxShare = 64

// checkShare refuses what cannot be shared out.
func (c *mountConfig) checkShare() error {
	switch {
	case c.gpuShare == 0:
		return nil
	case c.gpu == "off":
		return exit.Errorf(exit.Usage, "--gpu-share %d shares a GPU, and --gpu off uses none: leave out one of them", c.gpuShare)
	case c.slotBytes() == 0:
		return exit.Errorf(exit.Usage, "--gpu-share %d takes --gpu-memory %dM or more, of which half is for what those who share it get", c.gpuShare, 2*share.MemoryFor(c.gpuShare)>>20)
	}
	return nil
}

// slotBytes is what a batch for another process may take; half of the memory is set
// aside for them.
func (c *mountConfig) slotBytes() int64 {
	memory := c.gpuMemory
	if memory == 0 {
		memory = defaultGPUMemory
	}
	return share.SlotBytes(memory/2, c.gpuShare)
}

// tensors is how much of --gpu-memory is set aside.
func (c *mountConfig) tensors() int64 {
	if c.gpuShare == 0 {
		return 0
	}
	return c.slotBytes() * int64(c.gpuShare) * share.SlotsEach
}

// shareGPU lets other processes have their pictures decoded.
func (m *running) shareGPU(c *mountConfig, log *slog.Logger) error {
	if c.gpuShare == 0 {
		return nil
	}
	socket, err := control.GPUSocket(c.dir)
	if err != nil {
		return err
	}
	m.share, err = share.Serve(socket, share.Options{
		Clients: c.gpuShare, SlotBytes: c.slotBytes(), Limits: c.limits, Workers: c.workers,
		GPU: m.gpu.Shared, Read: m.fs.ReadFile, Log: log,
	})
	if err != nil {
		return err
	}
	m.close = append(m.close, m.share.Close)
	return nil
}

// gpuFiles are those of .pipefs/gpu that programs which train use.
func (m *running) gpuFiles(files map[string]func() ([]byte, error)) {
	as := func(b []byte) func() ([]byte, error) { return func() ([]byte, error) { return b, nil } }
	files["gpu/"+python.Name] = as(python.Module)
	files["gpu/"+python.SharedName] = as(python.Shared)
	if m.config.gpuShare > 0 {
		files["gpu/socket"] = func() ([]byte, error) {
			socket, err := control.GPUSocket(m.config.dir)
			return []byte(socket + "\n"), err
		}
	}
}

// shareCounters are those of the processes that share the GPU.
func (m *running) shareCounters() []control.Counter {
	if m.share == nil {
		return nil
	}
	s := m.share.Stats()
	const group = "gpu share"
	return []control.Counter{
		{Group: group, Name: "processes", Value: int64(s.Clients)},
		{Group: group, Name: "slots in use", Value: int64(s.Slots)},
		{Group: group, Name: "batches decoded", Value: s.Batches},
		{Group: group, Name: "pictures decoded", Value: s.Pictures},
		{Group: group, Name: "written", Value: s.Bytes, Unit: control.Bytes},
		{Group: group, Name: "could not be decoded", Value: s.Failed},
	}
}
