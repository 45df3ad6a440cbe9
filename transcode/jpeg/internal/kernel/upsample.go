package kernel

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

func upsampleH1V2Go(dst, near, far []byte, bias int) {
	dst, far = dst[:len(near)], far[:len(near)]
	for i, v := range near {
		dst[i] = byte((3*int(v) + int(far[i]) + bias) >> 2)
	}
}

func repeat2(dst, src []byte) {
	for i, v := range src {
		dst[2*i], dst[2*i+1] = v, v
	}
}
