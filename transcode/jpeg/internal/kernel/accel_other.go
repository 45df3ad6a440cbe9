//go:build !amd64

package kernel

// accelerated says that there are kernels in assembly.
const accelerated = false

const absent = "kernel: no assembly for this architecture"

func block8AVX2(*byte, int, *[64]int16, uint64, *[64]uint16)  { panic(absent) }
func block4AVX2(*byte, int, *[64]int16, uint64, *[64]uint16)  { panic(absent) }
func block2AVX2(*byte, int, *[64]int16, *[64]uint16)          { panic(absent) }
func upsampleH2V1AVX2(*byte, *byte, int)                      { panic(absent) }
func upsampleH2V2AVX2(*byte, *byte, *byte, int)               { panic(absent) }
func yccToRGBAVX2(*byte, *byte, *byte, *byte, int)            { panic(absent) }
func greyToRGBAVX2(*byte, *byte, int)                         { panic(absent) }
func coefficientsBMI2(*Cursor, *[64]int16, *byte, *Table) int { panic(absent) }
func skipBMI2(*Cursor, *byte, *Lengths) int                   { panic(absent) }
