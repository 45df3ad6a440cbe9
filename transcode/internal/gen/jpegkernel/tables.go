package main

import . "github.com/mmcloughlin/avo/operand"

// The bits of constants after the point, and of what the first pass hands to the second.
var constBits, passBits = target.Int("constBits"), target.Int("passBits")

// The constants of package kernel, see idct.go there.
var (
	f0211 = target.Int("f0211")
	f0298 = target.Int("f0298")
	f0390 = target.Int("f0390")
	f0509 = target.Int("f0509")
	f0541 = target.Int("f0541")
	f0601 = target.Int("f0601")
	f0720 = target.Int("f0720")
	f0765 = target.Int("f0765")
	f0850 = target.Int("f0850")
	f0899 = target.Int("f0899")
	f1061 = target.Int("f1061")
	f1175 = target.Int("f1175")
	f1272 = target.Int("f1272")
	f1451 = target.Int("f1451")
	f1501 = target.Int("f1501")
	f1847 = target.Int("f1847")
	f1961 = target.Int("f1961")
	f2053 = target.Int("f2053")
	f2172 = target.Int("f2172")
	f2562 = target.Int("f2562")
	f3072 = target.Int("f3072")
	f3624 = target.Int("f3624")
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
