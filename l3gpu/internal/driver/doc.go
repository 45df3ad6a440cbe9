// Package driver is an NVIDIA GPU as a device.Device, through libcuda.so.1, the
// library that comes with the driver. It is opened at run time: nothing of CUDA is
// needed to build, and nothing else of it to run.
//
// # Nouns
//
// The api is the table of libcuda's functions. The context is the state of a device in a
// process. This package uses the primary context, which it shares with other users of CUDA in
// the process. libcuda has a current context for each thread of the operating system, so that
// every call here first makes ours the current one.
//
// # Memory
//
// Pointers to Go memory are handed over only for the time of a call. Copies that go on
// afterwards are between memory of the driver on both sides.
package driver
