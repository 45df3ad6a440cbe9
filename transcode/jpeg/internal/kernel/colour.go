package kernel

// The factors of the conversion from YCbCr (ITU-R BT.601, full range), with 16
// bits after the point.
const (
	crToR = 91881  // 1.40200
	cbToB = 116130 // 1.77200
	crToG = 46802  // 0.71414
	cbToG = 22554  // 0.34414
	half  = 1 << 15
)

func yccToRGBGo(dst, y, cb, cr []byte) {
	n := len(y)
	cb, cr, dst = cb[:n], cr[:n], dst[:3*n]
	for i, v := range y {
		p := (*[3]byte)(dst[3*i:])
		p[0], p[1], p[2] = rgb(v, cb[i], cr[i])
	}
}

func rgb(y, cb, cr byte) (r, g, b byte) {
	l, u, v := int32(y), int32(cb)-128, int32(cr)-128
	return clamp(l + (v*crToR+half)>>16), clamp(l + (half-u*cbToG-v*crToG)>>16), clamp(l + (u*cbToB+half)>>16)
}

func greyToRGBGo(dst, y []byte) {
	dst = dst[:3*len(y)]
	for i, v := range y {
		*(*[3]byte)(dst[3*i:]) = [3]byte{v, v, v}
	}
}

func interleave3Go(dst, r, g, b []byte) {
	n := len(r)
	g, b, dst = g[:n], b[:n], dst[:3*n]
	for i, v := range r {
		*(*[3]byte)(dst[3*i:]) = [3]byte{v, g[i], b[i]}
	}
}

func ycckToCMYKGo(dst, y, cb, cr, k []byte) {
	n := len(y)
	cb, cr, k, dst = cb[:n], cr[:n], k[:n], dst[:4*n]
	for i, v := range y {
		r, g, b := rgb(v, cb[i], cr[i])
		*(*[4]byte)(dst[4*i:]) = [4]byte{^r, ^g, ^b, k[i]}
	}
}

func interleave4Go(dst, c, m, y, k []byte) {
	n := len(c)
	m, y, k, dst = m[:n], y[:n], k[:n], dst[:4*n]
	for i, v := range c {
		*(*[4]byte)(dst[4*i:]) = [4]byte{v, m[i], y[i], k[i]}
	}
}
