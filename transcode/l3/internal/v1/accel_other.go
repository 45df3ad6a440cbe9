//go:build !amd64

package v1

// accelerated says that there are forms in assembly.
const accelerated = false

const absent = "v1: no assembly for this architecture"

func rowsAVX2(*byte, int, *byte, int, int, int) int            { panic(absent) }
func wideRowsAVX2(*byte, *byte, int, int, int) int             { panic(absent) }
func interleaveAVX2(*byte, int, *byte, *byte, *byte, int, int) { panic(absent) }
func predictAVX2(*[32]byte, *[32]byte, *[32]byte, *[32]byte)   { panic(absent) }
func residualsAVX2(*byte, *[255][2]int8, *byte, int, int)      { panic(absent) }
func pickAVX2(*byte, *byte, int, int, int, int)                { panic(absent) }
