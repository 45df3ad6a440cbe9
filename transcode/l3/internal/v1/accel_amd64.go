package v1

import "golang.org/x/sys/cpu"

//go:generate go -C gen run . -out ../avx2_amd64.s -stubs ../avx2_amd64.go -pkg v1

// accelerated says that the forms for AVX2 are used. Tests set it.
var accelerated = cpu.X86.HasAVX2
