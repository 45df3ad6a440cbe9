package kernel

import "math/bits"

// natural maps zigzag order to natural order.
var natural = [64]uint8{
	0, 1, 8, 16, 9, 2, 3, 10, 17, 24, 32, 25, 18, 11, 4, 5,
	12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13, 6, 7, 14, 21, 28,
	35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51,
	58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63,
}

// The coefficients outside of row 0, as bits in zigzag order. The transform to
// 4×4 samples never looks at row 4.
const (
	row0     = 1<<0 | 1<<1 | 1<<5 | 1<<6 | 1<<14 | 1<<15 | 1<<27 | 1<<28
	row4     = 1<<10 | 1<<19 | 1<<23 | 1<<32 | 1<<39 | 1<<45 | 1<<52 | 1<<54
	columns8 = ^uint64(row0)
	columns4 = ^uint64(row0 | row4)
)

// dequantiseGo multiplies the coefficients b by the table quant, both in zigzag order, and
// writes all of out in natural order.
func dequantiseGo(out *[64]int16, b *[64]int16, nonzero uint64, quant *[64]uint16) {
	*out = [64]int16{}
	out[0] = b[0] * int16(quant[0])
	for n := nonzero &^ 1; n != 0; n &= n - 1 {
		k := bits.TrailingZeros64(n) & 63
		out[natural[k]&63] = b[k] * int16(quant[k])
	}
}
