package resample

import "golang.org/x/sys/cpu"

//go:generate go -C ../../../internal/gen run ./resample -out ../../raster/internal/resample/avx2_amd64.s -stubs ../../raster/internal/resample/avx2_amd64.go -pkg resample

// accelerated says that the kernels for AVX2 are used. Tests set it.
var accelerated = cpu.X86.HasAVX2
