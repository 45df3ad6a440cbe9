// Package python holds the modules for programs that train: they decode L3 pictures in
// their own CUDA context, so that no pixel passes through the host. README.md says how they
// are used; what they run on the GPU is that of package kernel.
package python

import "embed"

// Modules are for Python 3.9 or newer, side by side in one directory. They find the program
// for the GPU in a file called l3.ptx beside them.
//
//go:embed pipefs_gpu*.py
var Modules embed.FS
