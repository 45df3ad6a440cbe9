package mountd

import (
	"cmp"
	"fmt"
	"runtime"

	"github.com/pipefs/pipefs/l3gpu"
	"github.com/pipefs/pipefs/python"
	"github.com/pipefs/pipefs/transcode/l3"
)

// openGPU returns what decodes L3 files, nil for the processor alone. It is closed
// after what uses it.
func (m *Mount) openGPU() (l3.Backend, error) {
	c := m.config
	if c.GPU.Off {
		return nil, nil
	}
	o := l3gpu.StartOptions{
		Options: l3gpu.Options{Device: c.GPU.Device, Log: m.log},
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

// gpuFiles are those of .pipefs/gpu that programs which train use.
func (m *Mount) gpuFiles(files map[string]func() ([]byte, error)) {
	modules, _ := python.Modules.ReadDir(".") // it is embedded
	for _, f := range modules {
		files["gpu/"+f.Name()] = func() ([]byte, error) { return python.Modules.ReadFile(f.Name()) }
	}
}
