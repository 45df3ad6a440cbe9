// Package device is what l3gpu asks of an accelerator: memory, queues, programs.
// Package driver is the real one; package devicetest is one that fails on demand.
//
// # Nouns
//
// A Device is an accelerator that was opened, with memory of its own. Memory lies
// there; HostMemory is memory of this process that the device reads and writes by
// itself, so that neither the garbage collector nor the operating system may move
// it. A Stream is a queue of copies and launches, done one after another while the
// caller goes on; several streams proceed at once. An Event is a mark in a stream,
// to be waited for. A Module is a program; a Function of it is launched on a grid
// of blocks of threads.
//
// # Errors
//
// Every error of a device is an *Error, which names the call. It wraps one of the
// kinds ErrNoDriver, ErrNoDevice, ErrMemory and ErrLost where one applies. After
// ErrLost nothing works any more but Close: what was queued may or may not have
// been done, and what it wrote is worth nothing.
package device
