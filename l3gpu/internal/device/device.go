// Package device is what l3gpu needs of an accelerator: memory, queues, programs. Package
// driver implements it by NVIDIA's driver; package devicetest is one for tests that fails
// where it is told to.
//
// # Nouns
//
// A Device is an accelerator that was opened. Memory is memory of the device. HostMemory is
// memory of this process that the device reads and writes by itself, so that neither the
// garbage collector nor the operating system may move it. A Stream is a queue of copies and
// launches: the device does them one after another while the caller goes on, and several
// streams proceed at once. An Event is a mark in a stream that a caller can wait for. A Module
// is a program. A Function is one of its entries, and is launched on a grid of blocks of
// threads.
//
// # Errors
//
// Every error of a device is an *Error, which names the call. It wraps one of the kinds
// ErrNoDriver, ErrNoDevice, ErrMemory and ErrLost where one applies. After ErrLost only Close
// works. What was queued may or may not have been done, and what it wrote must not be used.
package device

import (
	"errors"
	"fmt"
	"time"
)

// Device is an accelerator. It, and all that comes from it, may be used by several
// goroutines at once; the order of calls on one stream is the caller's business.
type Device interface {
	// Info is known from the beginning.
	Info() Info
	// MemoryInfo is how much of the device's memory is free just now, whoever uses
	// the rest.
	MemoryInfo() (free, total int64, err error)
	// Load compiles a program, in PTX, for this device.
	Load(ptx []byte) (Module, error)
	// Alloc takes memory on the device.
	Alloc(size int64) (Memory, error)
	// AllocHost takes memory of this process that the device can reach.
	AllocHost(size int64) (HostMemory, error)
	// NewStream makes a queue, whose launches go before others that wait for the device;
	// other processes are not affected.
	NewStream() (Stream, error)
	// NewEvent makes a mark.
	NewEvent() (Event, error)
	// Close gives everything back that was not given back before. Nothing of the
	// device may be in use: HostMemory is gone afterwards.
	Close() error
}

// Info is what is known of a device.
type Info struct {
	Index        int    // among those of this machine
	Name         string // "NVIDIA GeForce RTX 4090"
	Major, Minor int    // compute capability
	Driver       int    // the newest CUDA that the driver knows: 1000·major + 10·minor
}

// CUDA is the newest version of CUDA that the driver knows: "12.4".
func (i Info) CUDA() string { return fmt.Sprintf("%d.%d", i.Driver/1000, i.Driver%1000/10) }

// Memory lies on the device.
type Memory interface {
	Address() uint64
	Free() error
}

// HostMemory lies in this process, and the device reaches it.
type HostMemory interface {
	// Bytes is the memory, until Free.
	Bytes() []byte
	Free() error
}

// Stream is a queue. What is in it was given by reference: host memory may not be
// touched, and no memory freed, before an event after it came.
type Stream interface {
	// Upload copies n bytes of host memory from an offset on to dst.
	Upload(dst uint64, src HostMemory, offset, n int64) error
	// Download copies n bytes at src to an offset of host memory.
	Download(dst HostMemory, offset int64, src uint64, n int64) error
	// Launch runs a function.
	Launch(f Function, l Launch) error
	// Record marks the place after all that was queued before.
	Record(e Event) error
	// Wait returns when the queue is empty.
	Wait() error
	Free() error
}

// Launch is how a function is run.
type Launch struct {
	Grid, Block uint32 // blocks, and threads of each
	// Params are the values of the function's parameters as PTX lays them out:
	// each at a multiple of its own size.
	Params []byte
}

// Event is a mark in a stream.
type Event interface {
	// Wait returns when the device came past the mark. It sleeps meanwhile.
	Wait() error
	// Since is the time between two marks that the device came past.
	Since(earlier Event) (time.Duration, error)
	Free() error
}

// Module is a program.
type Module interface {
	Function(name string) (Function, error)
	Free() error
}

// Function is one of a program.
type Function any

// The kinds of error that callers tell apart.
var (
	// ErrNoDriver: this machine has no driver, or one that is too old.
	ErrNoDriver = errors.New("no NVIDIA driver")
	// ErrNoDevice: the driver is there, and the device is not.
	ErrNoDevice = errors.New("no such GPU")
	// ErrMemory: not as much memory is free.
	ErrMemory = errors.New("out of memory")
	// ErrLost: the device, or our part of it, is in a state that only a new
	// process leaves.
	ErrLost = errors.New("the GPU is lost to this process")
)

// Error is a call that failed.
type Error struct {
	Call string // "cuMemAlloc_v2"
	Code string // "CUDA_ERROR_OUT_OF_MEMORY"
	Text string // the driver's own words
	Kind error  // one of the above, or nil
}

func (e *Error) Error() string {
	text := e.Call
	if e.Code != "" {
		text += ": " + e.Code
	}
	if e.Text != "" {
		text += ": " + e.Text
	}
	if e.Kind != nil {
		text = fmt.Sprintf("%v (%s)", e.Kind, text)
	}
	return text
}

func (e *Error) Unwrap() error { return e.Kind }
