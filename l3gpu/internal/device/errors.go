package device

import (
	"errors"
	"fmt"
)

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
