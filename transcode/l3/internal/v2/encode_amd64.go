package v2

import "golang.org/x/sys/cpu"

//go:generate go -C ../../../internal/gen run ./l3v2encode -out ../../l3/internal/v2/encode_avx2_amd64.s -stubs ../../l3/internal/v2/encode_avx2_amd64.go -pkg v2

// encodeAccelerated says that the forms for AVX2 are used. Tests set it.
var encodeAccelerated = cpu.X86.HasAVX2 && cpu.X86.HasBMI1 && cpu.X86.HasBMI2 && cpu.X86.HasPOPCNT
