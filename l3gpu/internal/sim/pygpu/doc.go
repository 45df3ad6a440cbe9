// Package pygpu has no code but tests. They run the modules pipefs_gpu*.py of package python
// on a GPU that is not there: fake_gpu.py speaks to an interpreter of the kernels, and
// fake_frameworks.py takes the place of PyTorch with CUDA, and of CuPy.
package pygpu
