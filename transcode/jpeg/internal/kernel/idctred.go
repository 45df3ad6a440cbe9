package kernel

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
