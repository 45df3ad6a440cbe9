package resample

import "golang.org/x/sys/cpu"

// accelerated says that the kernels for NEON are used. Tests set it. On another processor
// they run by CGO_ENABLED=0 GOARCH=arm64 go test -exec qemu-aarch64-static.
var accelerated = cpu.ARM64.HasASIMD

// The kernels do what those for AVX2 do.

//go:noescape
func horizontal1(dst *byte, dstStride int, src *byte, srcStride int, entry *uint32, step, turns, quads int)

//go:noescape
func horizontal3(dst *byte, dstStride int, src *byte, srcStride int, entry *uint32, step, turns, quads int)

//go:noescape
func horizontal4(dst *byte, dstStride int, src *byte, srcStride int, entry *uint32, step, turns, quads int)

//go:noescape
func vertical(dst, src *byte, stride, n int, entry *uint32, pairs int)
