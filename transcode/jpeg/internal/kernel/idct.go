package kernel

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
