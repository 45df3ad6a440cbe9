// Package python has the modules of Python that every mount shows: with them programs that
// train decode L3 pictures in their own CUDA context, so that no pixel passes through the
// host. docs/gpu-python.md says how they are used, package pygpu tests them, and what they
// run on the GPU is that of package kernel.
package python

import "embed"

// Modules are for Python 3.9 or newer, side by side in one directory. They find the program
// for the GPU in a file called l3.ptx beside them.
//
//go:embed pipefs_gpu*.py
var Modules embed.FS
