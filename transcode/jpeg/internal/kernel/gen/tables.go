package main

import . "github.com/mmcloughlin/avo/operand"

// Constants as in idct.go of package kernel, with 13 bits after the point.
const (
	constBits = 13
	passBits  = 2

	f0298 = 2446
	f0390 = 3196
	f0541 = 4433
	f0765 = 6270
	f0899 = 7373
	f1175 = 9633
	f1501 = 12299
	f1847 = 15137
	f1961 = 16069
	f2053 = 16819
	f2562 = 20995
	f3072 = 25172

	f0211 = 1730
	f0509 = 4176
	f0601 = 4926
	f0720 = 5906
	f0850 = 6967
	f1061 = 8697
	f1272 = 10426
	f1451 = 11893
	f2172 = 17799
	f3624 = 29692
)

// tables holds the constants of the transforms.
type tables struct {
	// pairs of factors: name by the inputs they go with
	e2, e3, z3, z4, b0, b1, b2, b3 Mem
	round1, round2                 rounding
	centre, turn                   Mem

	// the transform to 4×4
	f26, p13, p57, q13, q57 Mem
	half14, half24          Mem

	// the transform to 2×2
	r13, r57, row2 Mem
	half12, half22 Mem
}

// rounding is how a pass ends: bits are shifted out. The values that have the
// constants before them, paired with one and multiplied by scale, are in units of
// the sums and have the half that rounds.
type rounding struct {
	bits       int
	one, scale Mem
}

func makeTables() *tables {
	return &tables{
		e2: words("idctE2", f0541, f0541-f1847),
		e3: words("idctE3", f0541+f0765, f0541),
		z3: words("idctZ3", f1175-f1961, f1175),
		z4: words("idctZ4", f1175, f1175-f0390),
		b0: words("idctB0", f0298-f0899, -f0899),
		b3: words("idctB3", -f0899, f1501-f0899),
		b1: words("idctB1", f2053-f2562, -f2562),
		b2: words("idctB2", -f2562, f3072-f2562),
		round1: rounding{
			constBits - passBits,
			words("idctOne1", 1), words("idctScale1", 1<<constBits, 1<<(constBits-passBits-1)),
		},
		round2: rounding{
			constBits + passBits + 3,
			words("idctOne2", 1<<(passBits+3-1)), words("idctScale2", 1<<constBits),
		},

		centre: bytes("idctCentre", 128),
		// Columns of four bytes become rows.
		turn: bytes("idctTurn", 0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15),

		f26:    words("idct4F26", f1847, -f0765),
		p13:    words("idct4P13", f2562, f0899),
		p57:    words("idct4P57", -f0601, -f0509),
		q13:    words("idct4Q13", f1061, -f2172),
		q57:    words("idct4Q57", f1451, -f0211),
		half14: dwords("idct4Half1", 1<<(constBits-passBits+1-1)),
		half24: dwords("idct4Half2", 1<<(constBits+passBits+4-1)),

		r13: words("idct2R13", f3624, -f1272),
		r57: words("idct2R57", f0850, -f0720),
		row2: words("idct2Row", 0, f3624, 0, -f1272, 0, f3624, 0, -f1272,
			0, f0850, 0, -f0720, 0, f0850, 0, -f0720),
		half12: dwords("idct2Half1", 1<<(constBits-passBits+2-1)),
		half22: dwords("idct2Half2", 1<<(constBits+passBits+5-1)),
	}
}
