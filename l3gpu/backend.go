// Package l3gpu decodes L3 pictures on an NVIDIA GPU: it is a [l3.Backend]. Of CUDA it needs
// only the driver's own library, which it opens at run time. The program for the GPU is
// embedded as PTX.
//
// # Nouns
//
// A batch is what one call decodes: pictures of any sizes and kinds. It is cut into pieces.
// A piece is copied to the GPU, decoded and copied back as one. A slot is the memory for one
// piece, on the GPU and, laid out in the same way, in memory here that the GPU reaches. There
// are three slots: while one piece is decoded, another one is copied there and a third one is
// copied back. Together they take the memory that [Options] allow, and never more.
//
// A [Backend] decodes a batch to where its targets say. A [Gatherer] makes batches of pictures
// that several callers want at about the same time. [Start] puts this together for a program
// that does not know whether there is a GPU; [Compare] measures whether the GPU is faster than
// the processor.
//
// # Failures
//
// The processor decides in the end. It decodes what the GPU cannot: pictures that fit no slot;
// pictures that the GPU's program refused, so that the errors are the processor's own; and
// whole batches when the GPU fails. A GPU that is lost, does not answer, or fails three times
// in a row is not used again. Callers then notice the longer time only, and the log has one
// line.
package l3gpu

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pipefs/pipefs/l3gpu/internal/device"
	"github.com/pipefs/pipefs/l3gpu/internal/driver"
	"github.com/pipefs/pipefs/transcode/l3"
)

// Backend is a [l3.Backend] on a GPU.
type Backend struct {
	o    Options
	info device.Info

	mu      sync.Mutex
	engine  *engine // nil once the GPU was given up, or closed
	held    *engine // the same until its memory was given back
	users   int     // of the engine
	quiet   sync.Cond
	closed  bool
	strikes int // batches in a row that the GPU failed

	pictures, bytes, rejects, failures, busy atomic.Int64
	lost                                     atomic.Bool
}

var _ l3.Backend = (*Backend)(nil)

// maxStrikes is the number of failures in a row after which the GPU is given up.
const maxStrikes = 3

// open makes a backend of a device, which it closes when it is closed.
func open(d device.Device, o Options) (*Backend, error) {
	b := &Backend{o: o, info: d.Info()}
	b.quiet.L = &b.mu
	var err error
	if b.engine, err = newEngine(d, o); err != nil {
		return nil, fmt.Errorf("GPU %d, %s: %w", o.Device, d.Info().Name, errors.Join(err, d.Close()))
	}
	b.held = b.engine
	return b, nil
}

// Info describes the GPU for a log line.
func (b *Backend) Info() string {
	return describe(b.info)
}

// Decode implements [l3.Backend]. What the GPU cannot do the processor does, with
// the same samples and the same errors; so an error is the end of ctx, or ErrClosed.
func (b *Backend) Decode(ctx context.Context, jobs []l3.Job) error {
	for i := range jobs {
		jobs[i].Err = nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	e, err := b.enter()
	if err != nil {
		return err
	}
	if e == nil {
		return b.onCPU(ctx, jobs, nil)
	}
	r := run{b: b, e: e, ctx: ctx, jobs: jobs}
	b.leave(r.decode())
	if err := ctx.Err(); err != nil {
		return err
	}
	b.rejects.Add(int64(len(r.rest)))
	if len(r.rest) == 0 {
		return nil
	}
	return b.onCPU(ctx, jobs, r.rest)
}

// onCPU does jobs on the processor: those of a list, or all without one.
func (b *Backend) onCPU(ctx context.Context, jobs []l3.Job, list []int) error {
	n := len(jobs)
	if list != nil {
		n = len(list)
	}
	parallel(b.o.Workers, n, func(i int) {
		if list != nil {
			i = list[i]
		}
		if ctx.Err() == nil {
			jobs[i].Err = jobs[i].Samples.Decode(jobs[i].Dst)
		}
	})
	return ctx.Err()
}

// enter returns the engine, until leave; nil means that the GPU was given up.
func (b *Backend) enter() (*engine, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, ErrClosed
	}
	if b.engine != nil {
		b.users++
	}
	return b.engine, nil
}

// leave ends the use of the engine; failure is that of the GPU, or nil. Where the GPU was
// given up, the last caller to leave frees its memory: nothing may be freed while it is used.
func (b *Backend) leave(failure error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if failure != nil {
		b.strike(failure)
	} else {
		b.strikes = 0
	}
	if e := b.held; b.users == 1 && b.engine == nil && e != nil && !b.closed {
		b.held = nil
		b.mu.Unlock()
		_ = e.close()
		b.mu.Lock()
	}
	if b.users--; b.users == 0 {
		b.quiet.Broadcast()
	}
}

// strike logs a failure and may give the GPU up, under the lock.
func (b *Backend) strike(failure error) {
	b.failures.Add(1)
	if b.engine == nil {
		return // another caller has done this
	}
	b.strikes++
	if !errors.Is(failure, device.ErrLost) && b.strikes < maxStrikes {
		b.o.Log.Warn("the GPU failed; the batch is decoded without it", "gpu", b.info.Name, "cause", failure)
		return
	}
	b.engine = nil
	b.lost.Store(true)
	b.o.Log.Error("the GPU failed and is not used again; the processor decodes from now on", "gpu", b.info.Name, "cause", failure)
}

// Close waits for running calls, and frees everything. A second Close does nothing.
func (b *Backend) Close() error {
	b.mu.Lock()
	b.closed, b.engine = true, nil
	for b.users > 0 {
		b.quiet.Wait()
	}
	e := b.held
	b.held = nil
	b.mu.Unlock()
	if e == nil {
		return nil
	}
	if err := e.close(); err != nil {
		return fmt.Errorf("giving back the memory of GPU %d, %s: %w", b.o.Device, b.info.Name, err)
	}
	return nil
}

// Stats is what a backend has counted.
type Stats struct {
	Pictures int64 // that the GPU decoded
	Bytes    int64 // of their samples
	Rejects  int64 // pictures that the processor had to decode: too large, damaged, of an unknown kind
	Failures int64 // batches in which the GPU failed
	// Busy is how long pieces took on the GPU, from the beginning of the copy there to
	// the end of the copy back. Those that overlap count each for itself.
	Busy time.Duration
	Lost bool // the GPU was given up
}

// Stats returns the counters.
func (b *Backend) Stats() Stats {
	return Stats{
		Pictures: b.pictures.Load(), Bytes: b.bytes.Load(), Rejects: b.rejects.Load(),
		Failures: b.failures.Load(), Busy: time.Duration(b.busy.Load()), Lost: b.lost.Load(),
	}
}

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

// Found describes a GPU without taking any of its memory for long, or says why it cannot be
// used.
func Found(index int) (string, error) {
	d, err := driver.Open(index)
	if err != nil {
		return "", fmt.Errorf("GPU %d: %w", index, err)
	}
	return describe(d.Info()), d.Close()
}

// describe is a device for a log line.
func describe(i device.Info) string {
	return fmt.Sprintf("%s, compute capability %d.%d, driver for CUDA %s", i.Name, i.Major, i.Minor, i.CUDA())
}
