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
