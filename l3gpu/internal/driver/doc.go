// Package driver is an NVIDIA GPU as a device.Device, through libcuda.so.1, the
// library that comes with the driver. It is opened at run time: nothing of CUDA is
// needed to build, and nothing else of it to run.
//
// # Nouns
//
// The api is the table of libcuda's functions. The context is what a process has
// of a device: the primary one is used, which other users of CUDA in the same
// process share. libcuda keeps it for each thread of the operating system, so that
// every call here first makes it the current one.
//
// # Memory
//
// Pointers to Go memory are handed over only for the time of a call; copies that
// go on afterwards are between memory of the driver's own on both sides.
//
// All memory comes from cuMemAlloc: what cuMemCreate or a memory pool gave has no handle
// for other processes. A handle names the process that made it and its memory; it is of no
// use within that process, nor in another PID namespace.
package driver
