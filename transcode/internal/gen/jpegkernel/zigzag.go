package main

import (
	"fmt"
	"slices"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"

	. "github.com/pipefs/pipefs/transcode/internal/gen/asm"
)

// natural maps zigzag order to natural order.
var natural = [64]int{
	0, 1, 8, 16, 9, 2, 3, 10, 17, 24, 32, 25, 18, 11, 4, 5,
	12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13, 6, 7, 14, 21, 28,
	35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51,
	58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63,
}

// zigzag holds the masks that put zigzag order into pair registers.
type zigzag [4][4]struct {
	// The lower half of the register takes 8 values from eighth lower of the
	// zigzag, the upper half from eighth upper; -1 for none.
	lower, upper int
	mask         Mem
}

func makeZigzag() (z zigzag) {
	var position [64]int
	for k, n := range natural {
		position[n] = k
	}
	for i := range z {
		// Which eighth each half takes something from.
		var from [2][]int
		// at[h][w] is where word w of half h comes from.
		var at [2][8]int
		for h := range 2 {
			var seen [8]bool
			for w := range 8 {
				at[h][w] = position[8*(2*i+w/4)+4*h+w%4]
				seen[at[h][w]/8] = true
			}
			for e, yes := range seen {
				if yes {
					from[h] = append(from[h], e)
				}
			}
		}
		for j := range z[i] {
			s := &z[i][j]
			s.lower, s.upper = -1, -1
			if j < len(from[0]) {
				s.lower = from[0][j]
			}
			if j < len(from[1]) {
				s.upper = from[1][j]
			}
			var indices [32]int
			for n := range indices {
				h, w := n/16, n%16/2
				indices[n] = none
				if k := at[h][w]; k/8 == [2]int{s.lower, s.upper}[h] {
					indices[n] = 2*(k%8) + n%2
				}
			}
			s.mask = bytes(fmt.Sprintf("zigzag%d%d", i, j), indices[:]...)
		}
	}
	return z
}

// gather multiplies the parameters b and quant, and returns the products.
func (z *zigzag) gather() (p block) {
	b, quant := Mem{Base: Arg("b")}, Mem{Base: Arg("quant")}
	products := AllocLocal(128)
	for i := range 4 {
		v := Loaded(b.Offset(32 * i))
		VPMULLW(quant.Offset(32*i), v, v)
		VMOVDQU(v, products.Offset(32*i))
	}
	for i := range p {
		for j, s := range z[i] {
			if s.lower < 0 && s.upper < 0 {
				continue
			}
			// A half that takes nothing may have any source.
			lower, upper := max(s.lower, 0), s.upper
			v := YMM()
			VBROADCASTI128(products.Offset(16*lower), v)
			if upper >= 0 && upper != lower {
				VINSERTI128(U8(1), products.Offset(16*upper), v, v)
			}
			VPSHUFB(s.mask, v, v)
			if j == 0 {
				p[i] = v
			} else {
				VPOR(v, p[i], p[i])
			}
		}
	}
	return p
}

// testOutside compares the coefficients outside of the given rows with zero.
func testOutside(rows ...int) {
	mask := ^uint64(1)
	for k, n := range natural {
		if slices.Contains(rows, n/8) {
			mask &^= 1 << k
		}
	}
	nonzero, outside := Arg("nonzero"), GP64()
	MOVQ(U64(mask), outside)
	TESTQ(nonzero, outside)
}
