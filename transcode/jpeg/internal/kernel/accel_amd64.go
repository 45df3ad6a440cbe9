package kernel

import "golang.org/x/sys/cpu"

//go:generate go -C ../../../internal/gen run ./jpegkernel -out ../../jpeg/internal/kernel/avx2_amd64.s -stubs ../../jpeg/internal/kernel/avx2_amd64.go -pkg kernel

// accelerated says that the kernels in assembly are used. Tests set it.
var accelerated = cpu.X86.HasAVX2 && cpu.X86.HasBMI2
