// Package standin is for tests of programs that use a GPU and run where there is none:
// the program of package kernel, done by the processor's decoder.
//
// # Nouns
//
// The library is a libcuda.so.1 of our own, compiled from package driver's testdata by
// the C compiler; a process that is given its environment finds it in the place of
// NVIDIA's. It has the memory, the handles and the rules of a GPU, and asks a machine to
// run the kernels. The machine is in the test's process: it sees the same memory, and is
// told by the same tables what the GPU would have been told.
package standin
