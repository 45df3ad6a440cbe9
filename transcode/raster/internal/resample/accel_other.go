//go:build !amd64 && !arm64

package resample

// accelerated says that there are kernels in assembly.
const accelerated = false

const absent = "resample: no assembly for this architecture"

func horizontal1(*byte, int, *byte, int, *uint32, int, int, int) { panic(absent) }
func horizontal3(*byte, int, *byte, int, *uint32, int, int, int) { panic(absent) }
func horizontal4(*byte, int, *byte, int, *uint32, int, int, int) { panic(absent) }
func vertical(*byte, *byte, int, int, *uint32, int)              { panic(absent) }
