// Package python has what a process of Python uses of pipefs. The modules pipefs_gpu*.py are
// shown by every mount: with them programs that train decode L3 pictures in their own CUDA
// context, so that no pixel passes through the host. docs/gpu-python.md says how they are
// used, package pygpu tests them, and what they run on the GPU is that of package kernel. The
// package pipefs of Python mounts, and tunes the fidelity of a training.
package python

import "embed"

// Modules are for Python 3.9 or newer, side by side in one directory. They find the program
// for the GPU in a file called l3.ptx beside them.
//
//go:embed pipefs_gpu*.py
var Modules embed.FS

// Package is the package pipefs of Python, without a program, and its examples.
//
//go:embed pipefs/*.py examples/*.py
var Package embed.FS
