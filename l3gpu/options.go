package l3gpu

import (
	"fmt"
	"log/slog"
	"runtime"
	"time"

	"github.com/pipefs/pipefs/l3gpu/internal/device"
	"github.com/pipefs/pipefs/l3gpu/internal/driver"
)

// The kinds of error of Open that callers tell apart.
var (
	// ErrNoDriver: there is no NVIDIA driver on this machine, or a very old one.
	ErrNoDriver = device.ErrNoDriver
	// ErrNoDevice: the driver does not have this GPU.
	ErrNoDevice = device.ErrNoDevice
	// ErrMemory: there is not as much memory free.
	ErrMemory = device.ErrMemory
)

// Options of Open. The zero value of each field means its default.
type Options struct {
	// Device is the number of the GPU among those that CUDA shows to this process.
	Device int
	// Memory bounds what the backend takes, half of it on the GPU and half of it in
	// this process. What the driver takes for itself comes on top. Default: 256 MiB.
	Memory int64
	// Workers is how many goroutines copy and check at once, and decode what the GPU
	// cannot. Default: one a core.
	Workers int
	// Patience is how long the GPU may take for one piece of a batch before it is
	// given up. Default: 10 s.
	Patience time.Duration
	// Log is told what goes wrong. Default: nothing is logged.
	Log *slog.Logger

	// device opens another device, in tests.
	device func(index int) (device.Device, error)
}

const (
	defaultMemory   = 256 << 20
	defaultPatience = 10 * time.Second

	// slots is how many pieces are under way at once: one is copied to the GPU, one is
	// decoded, one is copied back.
	slots = 3
	// slotUnit is about the unit in which drivers hand out memory.
	slotUnit = 64 << 10
)

func (o Options) withDefaults() (Options, error) {
	if o.Memory == 0 {
		o.Memory = defaultMemory
	}
	if o.Workers <= 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	if o.Patience <= 0 {
		o.Patience = defaultPatience
	}
	if o.device == nil {
		o.device = driver.Open
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if least := int64(2 * slots * slotUnit); o.Memory < least {
		return o, fmt.Errorf("%d bytes of memory for a GPU: it takes at least %d", o.Memory, least)
	}
	return o, nil
}

// slotBytes is the size of a slot, which is there twice: on the GPU and here.
func (o Options) slotBytes() int64 { return o.Memory / (2 * slots) / slotUnit * slotUnit }

// Open opens a GPU. The error says why there is none; a caller then decodes on the processor.
func Open(o Options) (*Backend, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	d, err := o.device(o.Device)
	if err != nil {
		return nil, fmt.Errorf("GPU %d: %w", o.Device, err)
	}
	return open(d, o)
}
