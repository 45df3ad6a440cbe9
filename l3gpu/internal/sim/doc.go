// Package sim has no code. Its packages take the place of a GPU, or of what surrounds one,
// in tests:
//
//   - ptxvm executes PTX, the program of package kernel among others, and checks every access.
//   - devicetest is a device.Device that counts what was taken, and fails where it is told to.
//   - fakecuda is a libcuda.so.1, and the processor's decoder in the place of the kernels.
//   - pygpu has modules of Python that take the place of PyTorch with CUDA, and of CuPy. It
//     runs the modules of package python on them.
package sim
