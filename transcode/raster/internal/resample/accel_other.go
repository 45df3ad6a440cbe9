//go:build !amd64

package resample

// accelerated says that there are kernels in assembly.
const accelerated = false

const absent = "resample: no assembly for this architecture"

func horizontal1AVX2(*byte, int, *byte, int, *uint32, int, int, int) { panic(absent) }
func horizontal2AVX2(*byte, int, *byte, int, *uint32, int, int, int) { panic(absent) }
func horizontal3AVX2(*byte, int, *byte, int, *uint32, int, int, int) { panic(absent) }
func horizontal4AVX2(*byte, int, *byte, int, *uint32, int, int, int) { panic(absent) }
func verticalAVX2(*byte, *byte, int, int, *uint32, int)              { panic(absent) }
