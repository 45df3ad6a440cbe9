// Package python holds the module for programs that train: it decodes L3 pictures in
// their own CUDA context, so that no pixel passes through the host. README.md says how it
// is used; what it runs on the GPU is that of package kernel.
package python

import _ "embed"

// Name is what Module has to be called as a file. It finds the program for the GPU in a
// file called l3.ptx beside it.
const Name = "pipefs_gpu.py"

// Module is the module: one file, for Python 3.9 or newer.
//
//go:embed pipefs_gpu.py
var Module []byte

// SharedName is what Shared has to be called as a file, beside that of Module.
const SharedName = "pipefs_gpu_shared.py"

// Shared is the module for those who share the decoder of a mount.
//
//go:embed pipefs_gpu_shared.py
var Shared []byte
