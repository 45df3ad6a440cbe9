// Package kernel is the inner loops of JPEG decoding: from the bits of a sequential scan to
// coefficients, from those to samples, and from samples to pixels. It computes what libjpeg-turbo computes by
// default (slow integer transform, fancy upsampling), bit for bit, also for input
// that no encoder makes: wherever sums overflow or saturate, the result is that
// of libjpeg-turbo's SIMD code on x86-64, which differs from its C code there.
//
// The nouns:
//
//   - A symbol says how many coefficients before the next one are zero, and how many bits
//     follow that are its value.
//   - A coefficient is a quantised value of the 8×8 transform. Dequantised, it is
//     multiplied by its entry of the quantisation table; products keep their low
//     16 bits. Natural order is row by row, zigzag order is that of the file.
//   - A sample is a byte of one component; a pixel has a sample of each.
//   - A row is a slice of samples, or of interleaved pixels. Rows that go into
//     one call never overlap the one that comes out.
//   - Fancy upsampling doubles a row with a triangle filter, 3/4 of the nearer
//     sample and 1/4 of the farther one. Which way a tie is rounded alternates.
//   - A kernel is one function of this package. Each has a portable form; on amd64 those
//     that common files need have one in assembly too, which gives the same bytes.
//     transcode/internal/gen/jpegkernel generates those.
//
// Kernels allocate nothing and write nothing but the samples they are asked for.
// They rely on the lengths that their comments state, and panic otherwise.
package kernel

// step is the number of samples that assembly takes from a row at a time; shorter
// rows are left to Go.
const step = 32

// check panics where a row is too short: assembly would not notice.
func check(ok bool) {
	if !ok {
		panic("kernel: row too short")
	}
}

// checkBlock panics where dst has no room for size rows of size samples.
func checkBlock(dst []byte, stride, size int) {
	// The first comparison keeps the product of the other one from overflowing.
	check(uint(stride) <= uint(len(dst)) && len(dst) >= (size-1)*stride+size)
}

// IDCT1 returns the one sample of a block at an eighth of its size.
func IDCT1(in *[64]int16) byte {
	// Here libjpeg-turbo does not clamp but has a table of 1024 entries.
	v := (int32(in[0]) + 4) >> 3 << 22 >> 22
	return clamp(v + 128)
}

// Block8 writes the 8×8 samples of a block: it multiplies the coefficients b by the table
// quant, both in zigzag order, and transforms them. dst begins with the top left sample,
// rows are stride apart; len(dst) must be at least 7*stride+8. nonzero must have bit k set
// for each AC coefficient k that is not zero, and for no other; bit 0 is ignored.
//
// libjpeg-turbo looks at coefficients before it multiplies them to choose between two
// computations, which differ where a value of row 0 is beyond 13 bits. So does this: it
// gives libjpeg-turbo's samples even where a coefficient that is not zero becomes zero.
func Block8(dst []byte, stride int, b *[64]int16, nonzero uint64, quant *[64]uint16) {
	checkBlock(dst, stride, 8)
	if nonzero == 0 {
		flat8(dst, stride, flatSample(b, quant))
		return
	}
	if accelerated {
		block8AVX2(&dst[0], stride, b, nonzero, quant)
		return
	}
	var in [64]int16
	dequantiseGo(&in, b, nonzero, quant)
	idct8Go(dst, stride, &in, nonzero&columns8 == 0)
}

// Block4 is Block8 for 4×4 samples; len(dst) must be at least 3*stride+4.
func Block4(dst []byte, stride int, b *[64]int16, nonzero uint64, quant *[64]uint16) {
	checkBlock(dst, stride, 4)
	if accelerated {
		block4AVX2(&dst[0], stride, b, nonzero, quant)
		return
	}
	var in [64]int16
	dequantiseGo(&in, b, nonzero, quant)
	idct4Go(dst, stride, &in, nonzero&columns4 == 0)
}

// Block2 is Block8 for 2×2 samples; len(dst) must be at least stride+2.
func Block2(dst []byte, stride int, b *[64]int16, nonzero uint64, quant *[64]uint16) {
	checkBlock(dst, stride, 2)
	if accelerated {
		block2AVX2(&dst[0], stride, b, quant)
		return
	}
	var in [64]int16
	dequantiseGo(&in, b, nonzero, quant)
	idct2Go(dst, stride, &in)
}

// UpsampleH2V1 doubles a row. len(src) must be at least 1 and len(dst) at least
// 2*len(src). Rows of one or two samples are repeated rather than filtered, as in
// libjpeg.
func UpsampleH2V1(dst, src []byte) {
	check(len(dst) >= 2*len(src))
	if n := len(src); accelerated && n >= step+2 {
		dst[0], dst[1] = src[0], byte((3*int(src[0])+int(src[1])+2)>>2)
		upsampleH2V1AVX2(&dst[2], &src[1], n-2)
		dst[2*n-2], dst[2*n-1] = byte((3*int(src[n-1])+int(src[n-2])+1)>>2), src[n-1]
		return
	}
	upsampleH2V1Go(dst, src)
}

// UpsampleH2V2 doubles a row and interpolates it with its neighbour: near is the
// nearer row, far the farther one, of the same length, at least 1. len(dst) must
// be at least twice that. Rows of one or two samples are those of near, repeated,
// as in libjpeg.
func UpsampleH2V2(dst, near, far []byte) {
	check(len(far) >= len(near) && len(dst) >= 2*len(near))
	if n := len(near); accelerated && n >= step+2 {
		this, other := 3*int(near[0])+int(far[0]), 3*int(near[1])+int(far[1])
		dst[0], dst[1] = byte((4*this+8)>>4), byte((3*this+other+7)>>4)
		upsampleH2V2AVX2(&dst[2], &near[1], &far[1], n-2)
		this, other = 3*int(near[n-1])+int(far[n-1]), 3*int(near[n-2])+int(far[n-2])
		dst[2*n-2], dst[2*n-1] = byte((3*this+other+8)>>4), byte((4*this+7)>>4)
		return
	}
	upsampleH2V2Go(dst, near, far)
}

// UpsampleH1V2 interpolates a row with its neighbour: near is the nearer row, far
// the farther one, of the same length, dst not shorter. lower says that far is the
// row below near: a tie is then rounded up, otherwise down.
func UpsampleH1V2(dst, near, far []byte, lower bool) {
	check(len(far) >= len(near) && len(dst) >= len(near))
	bias := 1
	if lower {
		bias = 2
	}
	dst, far = dst[:len(near)], far[:len(near)]
	for i, v := range near {
		dst[i] = byte((3*int(v) + int(far[i]) + bias) >> 2)
	}
}

// YCCToRGB converts a row of YCbCr to RGB pixels. cb and cr must not be shorter
// than y, and len(dst) must be at least 3*len(y).
func YCCToRGB(dst, y, cb, cr []byte) {
	check(len(cb) >= len(y) && len(cr) >= len(y) && len(dst) >= 3*len(y))
	if accelerated && len(y) >= step {
		yccToRGBAVX2(&dst[0], &y[0], &cb[0], &cr[0], len(y))
		return
	}
	yccToRGBGo(dst, y, cb, cr)
}

// GreyToRGB repeats each sample of a row three times. len(dst) must be at least
// 3*len(y).
func GreyToRGB(dst, y []byte) {
	check(len(dst) >= 3*len(y))
	if accelerated && len(y) >= step {
		greyToRGBAVX2(&dst[0], &y[0], len(y))
		return
	}
	greyToRGBGo(dst, y)
}

// Interleave3 makes pixels of three rows. g and b must not be shorter than r, and
// len(dst) must be at least 3*len(r).
func Interleave3(dst, r, g, b []byte) {
	check(len(g) >= len(r) && len(b) >= len(r) && len(dst) >= 3*len(r))
	n := len(r)
	g, b, dst = g[:n], b[:n], dst[:3*n]
	for i, v := range r {
		*(*[3]byte)(dst[3*i:]) = [3]byte{v, g[i], b[i]}
	}
}

// YCCKToCMYK converts a row of YCCK to CMYK pixels: YCbCr is that of the inverted
// inks, black stays as it is. No row may be shorter than y, and len(dst) must be
// at least 4*len(y).
func YCCKToCMYK(dst, y, cb, cr, k []byte) {
	check(len(cb) >= len(y) && len(cr) >= len(y) && len(k) >= len(y) && len(dst) >= 4*len(y))
	n := len(y)
	cb, cr, k, dst = cb[:n], cr[:n], k[:n], dst[:4*n]
	for i, v := range y {
		r, g, b := rgb(v, cb[i], cr[i])
		*(*[4]byte)(dst[4*i:]) = [4]byte{^r, ^g, ^b, k[i]}
	}
}

// Interleave4 makes pixels of four rows. No row may be shorter than c, and
// len(dst) must be at least 4*len(c).
func Interleave4(dst, c, m, y, k []byte) {
	check(len(m) >= len(c) && len(y) >= len(c) && len(k) >= len(c) && len(dst) >= 4*len(c))
	n := len(c)
	m, y, k, dst = m[:n], y[:n], k[:n], dst[:4*n]
	for i, v := range c {
		*(*[4]byte)(dst[4*i:]) = [4]byte{v, m[i], y[i], k[i]}
	}
}

// Vectorised says whether there is assembly for this processor.
func Vectorised() bool { return accelerated }
