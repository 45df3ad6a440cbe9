//go:build !amd64

package v2

// encodeAccelerated says that there are forms in assembly.
const encodeAccelerated = false

const encodeAbsent = "v2: no assembly for this architecture"

func deinterleave3AVX2(*byte, *byte, *byte, *byte, int)         { panic(encodeAbsent) }
func deinterleave4AVX2(*byte, *byte, *byte, *byte, *byte, int)  { panic(encodeAbsent) }
func coloursAVX2(*byte, int, int)                               { panic(encodeAbsent) }
func residualsAVX2(*byte, *byte, *byte, *byte, *byte, int)      { panic(encodeAbsent) }
func residualsMEDAVX2(*byte, *byte, *byte, int)                 { panic(encodeAbsent) }
func fastCostsAVX2(*uint16, *byte, int, int) int                { panic(encodeAbsent) }
func denseCostsAVX2(*uint16, *byte, int, int) int               { panic(encodeAbsent) }
func emitAVX2(*byte, *byte, *[8]uint64, *byte, int, uint64) int { panic(encodeAbsent) }
