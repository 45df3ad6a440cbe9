package v2

import (
	"golang.org/x/sys/cpu"

	"github.com/pipefs/pipefs/transcode"
)

//go:generate go -C ../../../internal/gen run ./l3v2decode -out ../../l3/internal/v2/decode_avx2_amd64.s -stubs ../../l3/internal/v2/decode_avx2_amd64.go -pkg v2

// decodeAVX2 says that samples are predicted and placed by the forms for AVX2, and
// decodePDEP that blocks are unpacked by those that need BMI2 as well. Tests set them.
var (
	decodeAVX2 = cpu.X86.HasAVX2
	decodePDEP = decodeAVX2 && cpu.X86.HasBMI1 && cpu.X86.HasBMI2 && cpu.X86.HasPOPCNT && !slowPDEP()
)

// slowPDEP says that this processor is one of AMD, or Hygon, before Zen 3, which take
// hundreds of cycles for PDEP.
func slowPDEP() bool {
	_, b, _, _ := cpuid(0)
	const amd, hygon = 'A' | 'u'<<8 | 't'<<16 | 'h'<<24, 'H' | 'y'<<8 | 'g'<<16 | 'o'<<24
	if b != amd && b != hygon {
		return false
	}
	a, _, _, _ := cpuid(1)
	family := a >> 8 & 15
	if family == 15 {
		family += a >> 20 & 0xff
	}
	return family < 0x19
}

// accelState is what the forms in assembly have for themselves.
type accelState struct {
	wavefront wavefrontState
	wide      [4]wideState
	masks     colourMasks
	records   [4 * maxWords]blockRecord
}

// wavefrontState is what the wavefronts of four channels keep from unit to unit.
type wavefrontState struct {
	left   [4][lanes]byte // the last column
	above  [4][lanes]byte // what was above it
	mean   [4][lanes]byte // all ones if avg(L,T) replaces the first MED in avg(MED,MED)
	notMED [4][lanes]byte // and the second
}

// wideState is the same for one channel of 16 bits.
type wideState struct {
	left, above  [2][lanes]byte
	mean, notMED [lanes]byte
}

// colourMasks are of a colour transform.
type colourMasks struct {
	colour  [lanes]byte // all ones if there is one
	average [lanes]byte // all ones if blue comes from the average
	centre  [lanes]byte // 128, or 32768, if there is one
}

// blockRecord is what riceRawAVX2 tells quotientsAVX2 of a block.
//
//nolint:unused // only assembly has access to the fields
type blockRecord struct {
	ones      uint64 // plane 1
	bits      uint64 // raw bits of a sample
	forbidden uint64 // what of plane 4 must not be set
	_         uint64
}

func (a *accelState) start(h *header, wide bool) {
	a.wavefront, a.wide, a.masks = wavefrontState{}, [4]wideState{}, colourMasks{}
	for c, p := range h.preds {
		fill(&a.wavefront.left[c], 128)
		fill(&a.wavefront.above[c], 128)
		if p == predAvg {
			fill(&a.wavefront.mean[c], 255)
		}
		if p != predMED {
			fill(&a.wavefront.notMED[c], 255)
		}
		w := &a.wide[c]
		for i := range 2 {
			for j := 1; j < lanes; j += 2 {
				w.left[i][j], w.above[i][j] = 128, 128
			}
		}
		w.mean, w.notMED = a.wavefront.mean[c], a.wavefront.notMED[c]
	}
	if h.colour != colourNone {
		fill(&a.masks.colour, 255)
		fill(&a.masks.centre, 128)
		for i := 0; i < lanes && wide; i += 2 {
			a.masks.centre[i] = 0
		}
	}
	if h.colour == colourAvg {
		fill(&a.masks.average, 255)
	}
}

func fill(p *[lanes]byte, v byte) {
	for i := range p {
		p[i] = v
	}
}

// overRead is how far beyond a patch that is damaged the assembly can read: each block
// of a unit 8 bytes of a stream, and escapes 64 bytes more than that.
const overRead = 4*maxWords*8 + 64 + 8

// padded returns the patch in src[:n] with what may be read of it.
func (s *Scratch) padded(src []byte, n int) []byte {
	if !decodePDEP || !s.rice || n+overRead <= len(src) {
		return src
	}
	s.src = aligned(s.src, n+overRead)
	copy(s.src, src[:n])
	clear(s.src[n:])
	return s.src
}

// unpack decodes the blocks of some code words to s.z.
func (s *Scratch) unpack(src, codes []byte) bool {
	words := len(codes) / 2
	if !decodePDEP {
		return s.unpackBlocks(src, codes)
	}
	if !s.rice {
		s.raw += rawAVX2(&s.z[0], &src[s.raw], &codes[0], words)
		return true
	}
	for i, pos := range s.pos {
		if pos > s.end[i] {
			return false
		}
	}
	s.raw += riceRawAVX2(&s.z[0], &src[s.raw], &codes[0], words, &s.accel.records[0])
	return quotientsAVX2(&s.z[0], &src[0], &s.accel.records[0], words, &s.pos, s.end[streams-1])
}

// predicted says that samples are predicted by the forms for AVX2. There are none for grey
// with alpha of 8 bits, which is rare.
func (s *Scratch) predicted() bool { return decodeAVX2 && (s.samples != 2 || s.wide) }

// toRows moves what has been unpacked to rows, as samples if there is a form for it.
func (s *Scratch) toRows(step, first int) {
	if !s.predicted() {
		s.columnsToRows(step, first)
		return
	}
	if s.wide {
		s.wideWavefronts(step, first)
	} else {
		s.wavefronts(step, first)
	}
	transposeAVX2(&s.rows[s.row(0, 0)+step-first], &s.z[0], s.rowLen-1, lanes*s.rowLen, s.coded)
}

// shiftRows moves the beginning of the next band to where a band begins.
func (s *Scratch) shiftRows() {
	if !s.predicted() {
		s.moveRows()
		return
	}
	shiftAVX2(&s.rows[s.row(0, 0)], s.rowLen, s.band, s.coded*lanes)
}

// wavefronts makes samples of the residuals of a unit.
func (s *Scratch) wavefronts(step, first int) {
	z, w, channel := &s.z[0], &s.accel.wavefront, lanes*s.rowLen
	carry := &s.rows[s.row(0, lanes-1)-s.band+step-first]
	x := (step - first) % s.band
	forms := &wavefrontForms[s.samples-1]
	if s.med {
		forms = &wavefrontFormsMED[s.samples-1]
	}
	if step >= s.band && x >= lanes && x+unitSteps <= s.band {
		forms.inner(z, w, carry, channel)
	} else {
		forms.edge(z, w, carry, channel, s.band, x, s.band-step)
	}
}

// wavefrontForm is what makes samples of residuals, of some number of channels.
type wavefrontForm struct {
	inner func(z *byte, state *wavefrontState, carry *byte, channel int)
	// edge is for units that have lanes at an edge of the patch.
	edge func(z *byte, state *wavefrontState, carry *byte, channel, band, x, top int)
}

// The forms for 1, 3 and 4 channels, and those for patches without another predictor than
// MED.
var (
	wavefrontForms = [4]wavefrontForm{
		{wavefront1AVX2, wavefront1EdgeAVX2}, {}, {wavefront3AVX2, wavefront3EdgeAVX2}, {wavefront4AVX2, wavefront4EdgeAVX2},
	}
	wavefrontFormsMED = [4]wavefrontForm{
		{wavefront1MEDAVX2, wavefront1EdgeMEDAVX2}, {},
		{wavefront3MEDAVX2, wavefront3EdgeMEDAVX2}, {wavefront4MEDAVX2, wavefront4EdgeMEDAVX2},
	}
)

// wideWavefronts is wavefronts for samples of 16 bits, whose channels are taken one by one.
func (s *Scratch) wideWavefronts(step, first int) {
	for c := range s.samples {
		form := wavefrontWideAVX2
		if s.preds[c] == predMED {
			form = wavefrontWideMEDAVX2
		}
		carry := &s.rows[s.row(2*c, lanes-1)-s.band+step-first]
		form(&s.z[2*c*columnsLen], s.coded*columnsLen, &s.accel.wide[c], carry, lanes*s.rowLen, s.band, (step-first)%s.band, s.band-step)
	}
}

// restore makes samples of what toRows has left as residuals.
func (s *Scratch) restore(rows int, top bool) {
	if !s.predicted() {
		s.restoreRows(rows, top)
	}
}

// writePixels is an assembly function that writes pixels without gaps.
type writePixels func(dst *byte, row int, src *byte, lane, channel, w, h int, masks *colourMasks)

// place moves the rows of a band to where they are wanted, the first one to row y.
func (s *Scratch) place(dst transcode.Target, y, rows int) {
	size := 1
	rgb, rgba := writePixels(rgbAVX2), writePixels(rgbaAVX2)
	if s.wide {
		size = 2
		rgb, rgba = rgbWideAVX2, rgbaWideAVX2
	}
	at := dst.At(0, y, 0)
	switch {
	case !decodeAVX2:
		s.placeRows(dst, y, rows)
	case s.samples == 3 && dst.Pixel == 3*size && dst.Channel == size:
		s.placePixels(rgb, dst, at, rows)
	case s.samples == 3 && !s.wide && dst.Pixel == 3 && dst.Channel == -1:
		s.placePixels(bgrAVX2, dst, at-2, rows)
	case s.samples == 4 && dst.Pixel == 4*size && dst.Channel == size:
		s.placePixels(rgba, dst, at, rows)
	default:
		s.placePlanes(dst, y, rows, size)
	}
}

// placePixels is for pixels without gaps.
func (s *Scratch) placePixels(write writePixels, dst transcode.Target, at, rows int) {
	lane, channel := s.rowLen, lanes*s.rowLen
	if s.width >= lanes {
		write(&dst.Pix[at], dst.Row, &s.rows[s.row(0, 0)], lane, channel, s.width, rows, &s.accel.masks)
		return
	}
	// The assembly wants 32 pixels at least.
	for r := range rows {
		write(&s.temp[0], 0, &s.rows[s.row(0, r)], lane, channel, lanes, 1, &s.accel.masks)
		copy(dst.Pix[at+r*dst.Row:], s.temp[:s.width*dst.Pixel])
	}
}

// placePlanes is for all other layouts, of samples of size bytes: with a row of each
// channel in s.temp, unless the samples of the target are in rows as well.
func (s *Scratch) placePlanes(dst transcode.Target, y, rows, size int) {
	planes := planesAVX2
	if s.wide {
		planes = planesWideAVX2
	}
	lane, channel, w := s.rowLen, lanes*s.rowLen, max(s.width, lanes)
	direct := dst.Pixel == size && s.width >= lanes
	c := 0
	if s.samples >= 3 {
		c = 3
		if direct {
			planes(&dst.Pix[dst.At(0, y, 0)], dst.Row, &s.rows[s.row(0, 0)], lane, channel, s.width, rows, &s.accel.masks, dst.Channel)
		}
		for r := 0; r < rows && !direct; r++ {
			planes(&s.temp[0], 0, &s.rows[s.row(0, r)], lane, channel, w, 1, &s.accel.masks, w*size)
			for c := range 3 {
				s.placeRow(dst, y+r, c, s.temp[c*w*size:][:s.width*size])
			}
		}
	}
	for ; c < s.samples; c++ {
		for r := range rows {
			row := s.rowOf(c, r)
			if s.wide {
				wordsAVX2(&s.temp[0], &s.rows[s.row(2*c, r)], channel, w)
				row = s.temp[:2*s.width]
			}
			s.placeRow(dst, y+r, c, row)
		}
	}
}

// placeRow moves the samples of channel c to row y.
func (s *Scratch) placeRow(dst transcode.Target, y, c int, row []byte) {
	if s.wide {
		placeWords(dst.Pix, dst.At(0, y, c), dst.Pixel, row)
	} else {
		place(dst.Pix, dst.At(0, y, c), dst.Pixel, row)
	}
}

// placeWords is place for samples of 16 bits.
func placeWords(pix []byte, at, step int, row []byte) {
	if step == 2 {
		copy(pix[at:], row)
		return
	}
	for ; len(row) >= 2; row = row[2:] {
		to := pix[at:][:2]
		to[0], to[1] = row[0], row[1]
		at += step
	}
}

//go:generate go -C ../../../internal/gen run ./l3v2encode -out ../../l3/internal/v2/encode_avx2_amd64.s -stubs ../../l3/internal/v2/encode_avx2_amd64.go -pkg v2

// encodeAccelerated says that the forms for AVX2 are used. Tests set it.
var encodeAccelerated = cpu.X86.HasAVX2 && cpu.X86.HasBMI1 && cpu.X86.HasBMI2 && cpu.X86.HasPOPCNT
