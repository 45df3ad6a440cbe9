package v2

import (
	"encoding/binary"
	"math"
	"unsafe"

	"github.com/pipefs/pipefs/transcode"
)

const (
	// unitSteps is how many steps are decoded at a time.
	unitSteps = 2 * blockSteps
	// maxChannels is the number of channels of a patch of four channels of 16 bits.
	maxChannels = 8
	columnsLen  = lanes * blockSteps // the blocks of a code word
	maxWords    = 2 * maxChannels    // the code words of a unit
	// overhang is more than the number of steps by which a unit can exceed a band. Samples
	// of the next band that were decoded with it are moved to the start of that band.
	overhang = lanes + unitSteps
	// maxWidth bounds the memory for a band, which has 32 rows even if the patch has
	// one: a file of some megabytes could otherwise ask for gigabytes.
	maxWidth = 1 << 16
)

// Scratch is the working memory of a decoder, which patches can use one after the
// other. The zero value is ready.
type Scratch struct {
	shape
	header
	// Of each stream: the bit that is read next, and the one at which it ends, both
	// counted from the beginning of the patch.
	pos, end [streams]uint64

	z    []byte // the blocks of a unit, zigzag-coded; then its samples
	rows []byte // of a band, see row
	temp []byte // rows of samples on their way to a target
	src  []byte // a copy of a patch that too little follows

	rowLen, margin int
	deposits       *[1 << 16]uint8 // see deposit, nil until it is needed
	accel          accelState
}

// shape is what the caller knows of a patch.
type shape struct {
	geometry
	samples int // channels of the picture
	wide    bool
	coded   int // channels of the patch: two for each one of 16 bits
}

// header is the beginning of a patch, after it has been checked.
type header struct {
	colour int
	preds  [4]int
	med    bool // all of them are MED
	rice   bool
	codes  int // their offset
	raw    int // the offset of the raw part of the next block
}

// DecodeRows decodes the first rows of the patch in src[:n] to where dst has them, and does
// not read the bands below them. At least TailLen bytes have to follow the patch. The base of
// dst is the first sample of the patch. After an error some of the samples may have been
// written.
func DecodeRows(dst transcode.Target, src []byte, n, width, height, rows, channels, depth int, s *Scratch) error {
	if n < 0 || n > len(src)-TailLen || channels < 1 || channels > 4 || depth != 8 && depth != 16 ||
		width < 1 || rows < 1 || rows > height || width > math.MaxInt32 || height > math.MaxInt32 {
		return transcode.Errorf(transcode.ErrInternal, "patch of %d of %d bytes, %d×%d×%d of %d bits", n, len(src), width, height, channels, depth)
	}
	if width > maxWidth {
		return transcode.Errorf(transcode.ErrUnsupported, "patch of %d×%d, more than %d wide", width, height, maxWidth)
	}
	if err := dst.Check(width, rows, channels, depth/8); err != nil {
		return transcode.Errorf(transcode.ErrInternal, "%v", err)
	}
	// Each position of a channel has a quarter of a byte of codes. This comes before
	// anything else is computed or allocated. The factors have 17, 26 and 4 bits.
	coded := channels * depth / 8
	if uint64(max(width, minBand))*uint64((height+lanes-1)/lanes)*uint64(coded) > 4*uint64(n) {
		return transcode.Errorf(transcode.ErrTruncated, "patch of %d×%d in %d bytes", width, height, n)
	}
	s.shape = shape{geometryOf(width, height), channels, depth == 16, coded}
	if err := s.parse(src[:n]); err != nil {
		return err
	}
	s.allocate()
	return s.bands(dst, s.padded(src, n), rows)
}

// bands decodes the bands and places them, as far as they have the first rows.
func (s *Scratch) bands(dst transcode.Target, src []byte, wanted int) error {
	s.accel.start(&s.header, s.wide)
	step, words := 0, s.groups*s.coded
	for b := range s.geometry.bands {
		first := b * s.band
		for ; step < first+s.band+lanes-1; step += unitSteps {
			unit := min(words, 2*s.coded)
			codes := src[s.codes:][:2*unit]
			if !s.unpack(src, codes) {
				return transcode.Errorf(transcode.ErrBad, "blocks of steps %d to %d", step, step+unitSteps-1)
			}
			s.codes += 2 * unit
			words -= unit
			s.toRows(step, first)
		}
		rows := min(lanes, wanted-b*lanes)
		s.restore(rows, b == 0)
		s.place(dst, b*lanes, rows)
		if wanted < s.height && wanted <= (b+1)*lanes {
			return nil
		}
		if b+1 < s.geometry.bands {
			s.shift()
		}
	}
	for i, pos := range s.pos {
		if (pos+7)/8 != s.end[i]/8 {
			return transcode.Errorf(transcode.ErrBad, "stream %d ends at bit %d, and was read to %d", i, s.end[i], pos)
		}
		if pos%8 != 0 && src[pos/8]>>(pos%8) != 0 {
			return transcode.Errorf(transcode.ErrBad, "stream %d is padded with ones", i)
		}
	}
	return nil
}

// allocate takes memory for a band of this shape.
func (s *Scratch) allocate() {
	if s.z == nil {
		s.z = aligned(nil, maxWords*columnsLen)
	}
	// Before a row is room for the one of the band before, and after it for the part of
	// a unit that belongs to the next band. An odd number of cache lines keeps the rows
	// of a band in different sets of a cache.
	s.margin = (s.band + lanes + 63) &^ 63
	s.rowLen = (s.margin+s.band+overhang+63)&^63 | 64
	s.rows = aligned(s.rows, s.coded*lanes*s.rowLen)
	s.temp = aligned(s.temp, 8*max(s.width, lanes))
}

// row is where the samples of a lane in this band begin. Those of the band before
// come before them, in the last lane at least.
func (s *Scratch) row(c, lane int) int { return (c*lanes+lane)*s.rowLen + s.margin }

// shift moves what has been decoded of the next band to where a band begins.
func (s *Scratch) shift() {
	for c := range s.coded {
		// The next band is predicted from the last row of this one.
		at := s.row(c, lanes-1)
		copy(s.rows[at-s.band:at], s.rows[at:at+s.band])
	}
	s.shiftRows()
}

// aligned returns n bytes that begin at a cache line, those of b if they are enough.
func aligned(b []byte, n int) []byte {
	const line = 64
	if cap(b) >= n {
		return b[:n]
	}
	b = make([]byte, n+line-1)
	skip := -uintptr(unsafe.Pointer(unsafe.SliceData(b))) % line
	return b[skip:][:n]
}

// parse checks all of a patch that can be checked before its blocks are decoded, and
// sets where its parts are.
func (s *Scratch) parse(src []byte) error {
	bad := func(format string, args ...any) error { return transcode.Errorf(transcode.ErrBad, format, args...) }
	if len(src) < headLen {
		return transcode.Errorf(transcode.ErrTruncated, "patch of %d bytes", len(src))
	}
	colour, preds, flags := src[0], src[1], src[2]
	switch {
	case colour >= colours || s.samples < 3 && colour != colourNone:
		return bad("colour transform %d of %d channels", colour, s.samples)
	case preds>>(2*s.samples) != 0:
		return bad("predictors %#x of %d channels", preds, s.samples)
	case flags&^flagRice != 0 || src[3] != 0:
		return bad("flags %#x, %#x", flags, src[3])
	}
	s.header = header{colour: int(colour), med: preds == 0, rice: flags&flagRice != 0, codes: headLen}
	for c := range s.samples {
		p := int(preds >> (2 * c) & 3)
		if p > predMix {
			return bad("predictor %d", p)
		}
		s.preds[c] = p
	}
	if s.rice {
		s.codes += 4 * streams
	}
	s.raw = s.codes + 2*s.groups*s.coded
	if s.raw > len(src) {
		return transcode.Errorf(transcode.ErrTruncated, "patch of %d bytes, its codes end at %d", len(src), s.raw)
	}
	units, rice := sumCodes(src[s.codes:s.raw])
	if rice && !s.rice {
		return bad("Rice codes without streams")
	}
	return s.streams(src, s.raw+8*units)
}

// streams sets where the streams are, the first one at offset at.
func (s *Scratch) streams(src []byte, at int) error {
	// The sums of 8 numbers of 32 bits, and of codes that src has, do not overflow.
	end := uint64(at)
	for i := range s.pos {
		s.pos[i] = 8 * end
		if s.rice {
			end += uint64(binary.LittleEndian.Uint32(src[headLen+4*i:]))
		}
		s.end[i] = 8 * end
	}
	if n := uint64(len(src)); end > n {
		return transcode.Errorf(transcode.ErrTruncated, "patch of %d bytes, its parts take %d", n, end)
	} else if end < n {
		return transcode.Errorf(transcode.ErrBad, "patch of %d bytes, its parts take %d", n, end)
	}
	return nil
}

// sumCodes returns the sum of rawLen, and if there are Rice codes. The codes are many,
// so it takes 16 at a time.
func sumCodes(src []byte) (units int, rice bool) {
	const (
		lowest = 0x1111111111111111
		nibble = 0x0f0f0f0f0f0f0f0f
		sum    = 0x0101010101010101 // a product with it has the sum of bytes on top
	)
	var anyRice uint64
	for ; len(src) >= 8; src = src[8:] {
		x := binary.LittleEndian.Uint64(src)
		// The length is the lower three bits, except that of 8, which is 8.
		low, top := x&(7*lowest), x>>3&lowest
		some := (low | low>>1 | low>>2) & lowest
		eight := top &^ some
		anyRice |= top & some
		n := low&nibble + low>>4&nibble + 8*(eight&nibble+eight>>4&nibble)
		// At most 16 a byte, and 128 in all.
		units += int(n * sum >> 56)
	}
	for _, v := range src {
		for _, code := range [2]uint8{v & 15, v >> 4} {
			units += int(rawLen[code])
			if code >= codeRice {
				anyRice = 1
			}
		}
	}
	return units, anyRice != 0
}

// restoreRows makes samples of the residuals in the rows of a band. top says that it
// is the first band.
func (s *Scratch) restoreRows(rows int, top bool) {
	for r := range rows {
		c := 0
		if s.samples >= 3 && !s.wide && (r > 0 || !top) {
			var p [3]chain
			for c := range p {
				p[c] = chain{s.rowAbove(c, r, top), s.rowOf(c, r), s.preds[c]}
			}
			if s.med {
				restoreThreeMED(&p)
			} else {
				restoreThree(&p)
			}
			c = 3
		}
		for ; c < s.samples; c++ {
			if s.wide {
				restoreWide(s.rowAbove(2*c, r, top), s.rowAbove(2*c+1, r, top), s.rowOf(2*c, r), s.rowOf(2*c+1, r), s.preds[c])
			} else {
				restore(s.rowAbove(c, r, top), s.rowOf(c, r), s.preds[c])
			}
		}
	}
}

func (s *Scratch) rowOf(c, r int) []byte { return s.rows[s.row(c, r):][:s.width] }

// rowAbove returns nil above the first row of a patch.
func (s *Scratch) rowAbove(c, r int, top bool) []byte {
	switch {
	case r > 0:
		return s.rowOf(c, r-1)
	case top:
		return nil
	}
	return s.rows[s.row(c, lanes-1)-s.band:][:s.width]
}

// restore makes samples of residuals.
func restore(above, row []byte, p int) {
	if above == nil {
		// There is nothing above, so all predictors take the sample to the left.
		l := 1 << 7
		for x, z := range row {
			l += residual(int(z))
			row[x] = byte(l)
		}
		return
	}
	above = above[:len(row)]
	l, tl := int(above[0]), int(above[0])
	for x, z := range row {
		t := int(above[x])
		l = (predict(p, l, t, tl) + residual(int(z))) & 0xff
		row[x] = byte(l)
		tl = t
	}
}

// chain is a row in which each sample depends on the one before.
type chain struct {
	above, row []byte
	pred       int
}

// restoreThree is restore for three rows, which do not depend on each other.
func restoreThree(p *[3]chain) {
	n := len(p[0].row)
	a0, a1, a2 := p[0].above[:n], p[1].above[:n], p[2].above[:n]
	r0, r1, r2 := p[0].row[:n], p[1].row[:n], p[2].row[:n]
	mean0, notMED0 := choice(p[0].pred)
	mean1, notMED1 := choice(p[1].pred)
	mean2, notMED2 := choice(p[2].pred)
	l0, l1, l2 := int(a0[0]), int(a1[0]), int(a2[0])
	tl0, tl1, tl2 := l0, l1, l2
	for x := range n {
		t0, t1, t2 := int(a0[x]), int(a1[x]), int(a2[x])
		l0 = (mixed(l0, t0, tl0, mean0, notMED0) + residual(int(r0[x]))) & 0xff
		l1 = (mixed(l1, t1, tl1, mean1, notMED1) + residual(int(r1[x]))) & 0xff
		l2 = (mixed(l2, t2, tl2, mean2, notMED2) + residual(int(r2[x]))) & 0xff
		r0[x], r1[x], r2[x] = byte(l0), byte(l1), byte(l2)
		tl0, tl1, tl2 = t0, t1, t2
	}
}

// restoreThreeMED is restoreThree where all are predicted by MED.
func restoreThreeMED(p *[3]chain) {
	n := len(p[0].row)
	a0, a1, a2 := p[0].above[:n], p[1].above[:n], p[2].above[:n]
	r0, r1, r2 := p[0].row[:n], p[1].row[:n], p[2].row[:n]
	l0, l1, l2 := int(a0[0]), int(a1[0]), int(a2[0])
	tl0, tl1, tl2 := l0, l1, l2
	for x := range n {
		t0, t1, t2 := int(a0[x]), int(a1[x]), int(a2[x])
		l0 = (median(l0, t0, tl0) + residual(int(r0[x]))) & 0xff
		l1 = (median(l1, t1, tl1) + residual(int(r1[x]))) & 0xff
		l2 = (median(l2, t2, tl2) + residual(int(r2[x]))) & 0xff
		r0[x], r1[x], r2[x] = byte(l0), byte(l1), byte(l2)
		tl0, tl1, tl2 = t0, t1, t2
	}
}

// choice returns the masks with which mixed computes a predictor.
func choice(p int) (mean, notMED int) {
	if p == predAvg {
		mean = -1
	}
	if p != predMED {
		notMED = -1
	}
	return mean, notMED
}

// mixed is predict without a branch: the average of two values, each of which is MED
// or, where a mask has ones, AVG.
func mixed(l, t, tl, mean, notMED int) int {
	med := median(l, t, tl)
	d := (l+t+1)>>1 ^ med
	return ((med ^ d&mean) + (med ^ d&notMED) + 1) >> 1
}

// restoreWide is restore for samples of 16 bits, whose lower and upper bytes are rows
// of their own.
func restoreWide(aboveLow, aboveHigh, low, high []byte, p int) {
	l := 1 << 15
	if aboveLow != nil {
		l = int(aboveLow[0]) | int(aboveHigh[0])<<8
	}
	tl := l
	for x := range low {
		t := l
		if aboveLow != nil {
			t = int(aboveLow[x]) | int(aboveHigh[x])<<8
		}
		l = (predict(p, l, t, tl) + residual(int(low[x])|int(high[x])<<8)) & 0xffff
		low[x], high[x] = byte(l), byte(l>>8)
		tl = t
	}
}

// predict returns the prediction from the left, above, and above left.
func predict(p, l, t, tl int) int {
	if p == predAvg {
		return (l + t + 1) >> 1
	}
	med := median(l, t, tl)
	if p == predMED {
		return med
	}
	return (med + (l+t+1)>>1 + 1) >> 1
}

// median is MED.
func median(l, t, tl int) int {
	mx, mn := max(l, t), min(l, t)
	return mx + mn - min(max(tl, mn), mx)
}

// residual decodes the zigzag code.
func residual(z int) int { return z>>1 ^ -(z & 1) }
