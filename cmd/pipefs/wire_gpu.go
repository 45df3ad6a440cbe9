package main

import (
	"fmt"
	"log/slog"
	"runtime"
	"strconv"

	"github.com/pipefs/pipefs/internal/exit"
	"github.com/pipefs/pipefs/l3gpu"
	"github.com/pipefs/pipefs/transcode/l3"
)

// defaultGPUMemory is that of --gpu-memory.
const defaultGPUMemory = 256 << 20

// intoGPU sets which GPU is used: auto, off or a number.
func intoGPU(to *string) func(string) error {
	*to = "auto"
	return func(text string) error {
		if n, err := strconv.Atoi(text); text != "auto" && text != "off" && (err != nil || n < 0) {
			return fmt.Errorf("%q is not auto, off or the number of a GPU, from 0", text)
		}
		*to = text
		return nil
	}
}

// openGPU returns what decodes L3 files, nil for the processor alone. It is closed
// after what uses it.
func (m *running) openGPU(c *mountConfig, log *slog.Logger) (l3.Backend, error) {
	if c.gpu == "off" {
		return nil, nil
	}
	o := l3gpu.StartOptions{Options: l3gpu.Options{Memory: c.gpuMemory, Tensors: c.tensors(), Log: log}}
	if n, err := strconv.Atoi(c.gpu); err == nil {
		o.Force, o.Device = true, n
	}
	// As many as are asked for at once.
	if o.Compare.Pictures = c.workers; c.workers == 0 {
		o.Compare.Pictures = runtime.GOMAXPROCS(0)
	}
	gpu, err := l3gpu.Start(o)
	if err != nil {
		return nil, exit.With(exit.Mount, fmt.Errorf("--gpu %s: %w; --gpu off does without", c.gpu, err))
	}
	m.gpu = gpu
	m.close = append(m.close, gpu.Close)
	return gpu, nil
}
