package mountd

import (
	"cmp"
	"fmt"
	"runtime"

	"github.com/pipefs/pipefs/internal/control"
	"github.com/pipefs/pipefs/l3gpu"
	"github.com/pipefs/pipefs/l3gpu/share"
	"github.com/pipefs/pipefs/python"
	"github.com/pipefs/pipefs/transcode/l3"
)

// DefaultGPUMemory is that of GPU.Memory, in bytes.
const DefaultGPUMemory = 256 << 20

// MaxShare is how many processes may share a GPU: more than anybody has on one.
const MaxShare = 64

// openGPU returns what decodes L3 files, nil for the processor alone. It is closed
// after what uses it.
func (m *Mount) openGPU() (l3.Backend, error) {
	c := m.config
	if c.GPU.Off {
		return nil, nil
	}
	o := l3gpu.StartOptions{
		Options: l3gpu.Options{Memory: c.GPU.Memory, Tensors: c.GPU.tensors(), Device: c.GPU.Device, Log: m.log},
		Force:   c.GPU.Force,
	}
	// As many as are asked for at once.
	o.Compare.Pictures = cmp.Or(c.Workers, runtime.GOMAXPROCS(0))
	gpu, err := l3gpu.Start(o)
	if err != nil {
		return nil, fmt.Errorf("--gpu %d: %w; --gpu off does without", c.GPU.Device, err)
	}
	m.gpu = gpu
	m.close = append(m.close, gpu.Close)
	return gpu, nil
}

// SlotBytes is what a batch for another process may take; half of the memory is set
// aside for them. It is 0 where the memory is too little for so many.
func (g *GPU) SlotBytes() int64 {
	return share.SlotBytes(cmp.Or(g.Memory, DefaultGPUMemory)/2, g.Share)
}

// tensors is how much of the memory is set aside, in bytes.
func (g *GPU) tensors() int64 {
	if g.Share == 0 {
		return 0
	}
	return g.SlotBytes() * int64(g.Share) * share.SlotsEach
}

// shareGPU lets other processes have their pictures decoded.
func (m *Mount) shareGPU() error {
	c := m.config
	if c.GPU.Share == 0 {
		return nil
	}
	socket, err := control.GPUSocket(c.Dir)
	if err != nil {
		return err
	}
	m.share, err = share.Serve(socket, share.Options{
		Clients: c.GPU.Share, SlotBytes: c.GPU.SlotBytes(), Limits: c.Limits, Workers: c.Workers,
		GPU: m.gpu.Shared, Read: m.fs.ReadFile, Log: m.log,
	})
	if err != nil {
		return err
	}
	m.close = append(m.close, m.share.Close)
	return nil
}

// gpuFiles are those of .pipefs/gpu that programs which train use.
func (m *Mount) gpuFiles(files map[string]func() ([]byte, error)) {
	modules, _ := python.Modules.ReadDir(".") // it is embedded
	for _, f := range modules {
		files["gpu/"+f.Name()] = func() ([]byte, error) { return python.Modules.ReadFile(f.Name()) }
	}
	if m.config.GPU.Share > 0 {
		files["gpu/socket"] = func() ([]byte, error) {
			socket, err := control.GPUSocket(m.config.Dir)
			return []byte(socket + "\n"), err
		}
	}
}

// shareCounters are those of the processes that share the GPU.
func (m *Mount) shareCounters() []control.Counter {
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
