package kernel

import "math/bits"

// The transform is that of Loeffler, Ligtenberg and Moschytz, "Practical fast 1-D
// DCT algorithms with 11 multiplications" (ICASSP 1989), in integers: constants
// have 13 bits after the point, and what the first pass hands to the second one
// has 2. Names give the constant: f1175 is 1.175875602.
const (
	constBits = 13
	passBits  = 2

	f0298 = 2446  // 0.298631336
	f0390 = 3196  // 0.390180644
	f0541 = 4433  // 0.541196100
	f0765 = 6270  // 0.765366865
	f0899 = 7373  // 0.899976223
	f1175 = 9633  // 1.175875602
	f1501 = 12299 // 1.501321110
	f1847 = 15137 // 1.847759065
	f1961 = 16069 // 1.961570560
	f2053 = 16819 // 2.053119869
	f2562 = 20995 // 2.562915447
	f3072 = 25172 // 3.072711026
)

// butterflies is one transform of 8 values, without the final shift. Sums of 32
// bits wrap around. So do the sums of two inputs, at 16 bits: they are inputs of
// 16-bit multiplications in the SIMD code.
func butterflies(i0, i1, i2, i3, i4, i5, i6, i7 int32) (o0, o1, o2, o3, o4, o5, o6, o7 int32) {
	e0 := int32(int16(i0+i4)) << constBits
	e1 := int32(int16(i0-i4)) << constBits
	z := (i2 + i6) * f0541
	e2 := z - i6*f1847
	e3 := z + i2*f0765
	a0, a3 := e0+e3, e0-e3
	a1, a2 := e1+e2, e1-e2

	z3, z4 := int32(int16(i7+i3)), int32(int16(i5+i1))
	z5 := (z3 + z4) * f1175
	z1 := (i7 + i1) * -f0899
	z2 := (i5 + i3) * -f2562
	z3 = z3*-f1961 + z5
	z4 = z4*-f0390 + z5
	b0 := i7*f0298 + z1 + z3
	b1 := i5*f2053 + z2 + z4
	b2 := i3*f3072 + z2 + z3
	b3 := i1*f1501 + z1 + z4
	return a0 + b3, a1 + b2, a2 + b1, a3 + b0, a3 - b0, a2 - b1, a1 - b2, a0 - b3
}

// idct8Go transforms dequantised coefficients in natural order. rows says that nothing but row 0 counted before
// it was dequantised: then all columns are constant, and wrap around at 16 bits
// instead of saturating.
func idct8Go(dst []byte, stride int, in *[64]int16, rows bool) {
	var ws [64]int32
	if rows {
		for c := range 8 {
			v := int32(in[c] << passBits)
			for r := 0; r < 64; r += 8 {
				ws[r+c] = v
			}
		}
	} else {
		const shift = constBits - passBits
		const half = 1 << (shift - 1)
		for c := range 8 {
			i0 := int32(in[c])
			i1, i2, i3, i4 := int32(in[8+c]), int32(in[16+c]), int32(in[24+c]), int32(in[32+c])
			i5, i6, i7 := int32(in[40+c]), int32(in[48+c]), int32(in[56+c])
			if i1|i2|i3|i4|i5|i6|i7 == 0 {
				v := saturate(i0 << passBits)
				for r := 0; r < 64; r += 8 {
					ws[r+c] = v
				}
				continue
			}
			o0, o1, o2, o3, o4, o5, o6, o7 := butterflies(i0, i1, i2, i3, i4, i5, i6, i7)
			ws[c] = saturate((o0 + half) >> shift)
			ws[8+c] = saturate((o1 + half) >> shift)
			ws[16+c] = saturate((o2 + half) >> shift)
			ws[24+c] = saturate((o3 + half) >> shift)
			ws[32+c] = saturate((o4 + half) >> shift)
			ws[40+c] = saturate((o5 + half) >> shift)
			ws[48+c] = saturate((o6 + half) >> shift)
			ws[56+c] = saturate((o7 + half) >> shift)
		}
	}
	for r := range 8 {
		const shift = constBits + passBits + 3
		row := (*[8]int32)(ws[8*r:])
		out := (*[8]byte)(dst[r*stride:])
		if row[1]|row[2]|row[3]|row[4]|row[5]|row[6]|row[7] == 0 {
			v := level(row[0], passBits+3)
			*out = [8]byte{v, v, v, v, v, v, v, v}
			continue
		}
		o0, o1, o2, o3, o4, o5, o6, o7 := butterflies(row[0], row[1], row[2], row[3], row[4], row[5], row[6], row[7])
		out[0] = level(o0, shift)
		out[1] = level(o1, shift)
		out[2] = level(o2, shift)
		out[3] = level(o3, shift)
		out[4] = level(o4, shift)
		out[5] = level(o5, shift)
		out[6] = level(o6, shift)
		out[7] = level(o7, shift)
	}
}

// level rounds a result of the second pass to a sample.
func level(v int32, shift uint) byte {
	return clamp((v+1<<(shift-1))>>shift + 128)
}

// clamp returns the byte nearest to v.
func clamp(v int32) byte {
	if uint32(v) > 255 {
		v = ^(v >> 31)
	}
	return byte(v)
}

// saturate returns the 16-bit value nearest to v.
func saturate(v int32) int32 {
	return max(min(v, 1<<15-1), -1<<15)
}

// flatSample returns what each sample of a block is that has only a DC
// coefficient.
func flatSample(b *[64]int16, quant *[64]uint16) byte {
	return level(int32(b[0]*int16(quant[0])<<passBits), passBits+3)
}

func flat8(dst []byte, stride int, v byte) {
	row := [8]byte{v, v, v, v, v, v, v, v}
	for r := range 8 {
		*(*[8]byte)(dst[r*stride:]) = row
	}
}

// The transforms to fewer samples leave out the higher frequencies. They have
// constants of their own, named as those of idct.go.
const (
	f0211 = 1730  // 0.211164243
	f0509 = 4176  // 0.509795579
	f0601 = 4926  // 0.601344887
	f0720 = 5906  // 0.720959822
	f0850 = 6967  // 0.850430095
	f1061 = 8697  // 1.061594337
	f1272 = 10426 // 1.272758580
	f1451 = 11893 // 1.451774981
	f2172 = 17799 // 2.172734803
	f3624 = 29692 // 3.624509785
)

// butterflies4 makes 4 values of 8, of which the one at 4 plays no part. Sums of
// 32 bits wrap around.
func butterflies4(i0, i1, i2, i3, i5, i6, i7 int32) (o0, o1, o2, o3 int32) {
	e := i0 << (constBits + 1)
	f := i2*f1847 - i6*f0765
	a0, a1 := e+f, e-f
	b0 := i1*f2562 + i3*f0899 - i5*f0601 - i7*f0509
	b1 := i1*f1061 - i3*f2172 + i5*f1451 - i7*f0211
	return a0 + b0, a1 + b1, a1 - b1, a0 - b0
}

// idct4Go is idct8Go for 4×4 samples.
func idct4Go(dst []byte, stride int, in *[64]int16, rows bool) {
	var ws [32]int32
	for c := range 8 {
		const shift = constBits - passBits + 1
		const half = 1 << (shift - 1)
		if c == 4 {
			continue
		}
		if rows {
			v := int32(in[c] << passBits)
			ws[c], ws[8+c], ws[16+c], ws[24+c] = v, v, v, v
			continue
		}
		o0, o1, o2, o3 := butterflies4(int32(in[c]), int32(in[8+c]), int32(in[16+c]), int32(in[24+c]),
			int32(in[40+c]), int32(in[48+c]), int32(in[56+c]))
		ws[c] = saturate((o0 + half) >> shift)
		ws[8+c] = saturate((o1 + half) >> shift)
		ws[16+c] = saturate((o2 + half) >> shift)
		ws[24+c] = saturate((o3 + half) >> shift)
	}
	for r := range 4 {
		const shift = constBits + passBits + 4
		row := (*[8]int32)(ws[8*r:])
		out := (*[4]byte)(dst[r*stride:])
		o0, o1, o2, o3 := butterflies4(row[0], row[1], row[2], row[3], row[5], row[6], row[7])
		out[0] = level(o0, shift)
		out[1] = level(o1, shift)
		out[2] = level(o2, shift)
		out[3] = level(o3, shift)
	}
}

// odd2 is the part of the 2-point transform that is added and subtracted.
func odd2(i1, i3, i5, i7 int32) int32 {
	return i1*f3624 - i3*f1272 + i5*f0850 - i7*f0720
}

// idct2Go is idct8Go for 2×2 samples. Column 0 does not saturate between the passes.
func idct2Go(dst []byte, stride int, in *[64]int16) {
	const shift1 = constBits - passBits + 2
	const half = 1 << (shift1 - 1)
	const shift2 = constBits + passBits + 5
	var upper, lower [8]int32
	for _, c := range [5]uint{0, 1, 3, 5, 7} {
		e := int32(in[c]) << (constBits + 2)
		o := odd2(int32(in[8+c]), int32(in[24+c]), int32(in[40+c]), int32(in[56+c]))
		upper[c], lower[c] = (e+o+half)>>shift1, (e-o+half)>>shift1
		if c != 0 {
			upper[c], lower[c] = saturate(upper[c]), saturate(lower[c])
		}
	}
	e, o := upper[0]<<(constBits+2), odd2(upper[1], upper[3], upper[5], upper[7])
	dst[0], dst[1] = level(e+o, shift2), level(e-o, shift2)
	e, o = lower[0]<<(constBits+2), odd2(lower[1], lower[3], lower[5], lower[7])
	dst[stride], dst[stride+1] = level(e+o, shift2), level(e-o, shift2)
}

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
