// Package fakecuda takes the place of NVIDIA's library and of the program of package kernel
// in tests that run where there is no GPU. The processor's decoder does the program's work.
//
// # Nouns
//
// The library is a libcuda.so.1 of our own, compiled from testdata by the C compiler. A
// process that is given its environment finds it instead of NVIDIA's. It has the memory,
// the handles and the rules of a GPU, and asks a machine to run the kernels. The machine is
// in the test's process: it sees the same memory, and reads the same tables that the GPU
// would have read.
package fakecuda
