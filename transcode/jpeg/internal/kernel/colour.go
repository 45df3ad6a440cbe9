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

func upsampleH2V1Go(dst, src []byte) {
	n := len(src)
	dst = dst[:2*n]
	if n <= 2 {
		repeat2(dst, src)
		return
	}
	last, this := int(src[0]), int(src[0])
	for i, next := range src[1:] {
		dst[2*i] = byte((3*this + last + 1) >> 2)
		dst[2*i+1] = byte((3*this + int(next) + 2) >> 2)
		last, this = this, int(next)
	}
	dst[2*n-2] = byte((3*this + last + 1) >> 2)
	dst[2*n-1] = byte(this)
}

func upsampleH2V2Go(dst, near, far []byte) {
	n := len(near)
	dst, far = dst[:2*n], far[:n]
	if n <= 2 {
		repeat2(dst, near)
		return
	}
	this := 3*int(near[0]) + int(far[0])
	last := this
	for i := range n - 1 {
		next := 3*int(near[i+1]) + int(far[i+1])
		dst[2*i] = byte((3*this + last + 8) >> 4)
		dst[2*i+1] = byte((3*this + next + 7) >> 4)
		last, this = this, next
	}
	dst[2*n-2] = byte((3*this + last + 8) >> 4)
	dst[2*n-1] = byte((4*this + 7) >> 4)
}

func repeat2(dst, src []byte) {
	for i, v := range src {
		dst[2*i], dst[2*i+1] = v, v
	}
}
