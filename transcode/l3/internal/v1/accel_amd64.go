package v1

import "golang.org/x/sys/cpu"

//go:generate go -C ../../../internal/gen run ./l3v1 -out ../../l3/internal/v1/avx2_amd64.s -stubs ../../l3/internal/v1/avx2_amd64.go -pkg v1

// accelerated says that the forms for AVX2 are used. Tests set it.
var accelerated = cpu.X86.HasAVX2
