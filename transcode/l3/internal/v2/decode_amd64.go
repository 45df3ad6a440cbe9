package v2

import "golang.org/x/sys/cpu"

//go:generate go -C gendecode run . -out ../decode_avx2_amd64.s -stubs ../decode_avx2_amd64.go -pkg v2

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
	// Of each of four channels what waves keep from unit to unit, see the constants.
	wave [4][4][lanes]byte
	// The same for channels of 16 bits: two registers of what was left, two of what was
	// above it, and the two masks.
	wide [4][6][lanes]byte
	// Of the colour transform: all ones if there is one; all ones if blue comes from the
	// average; 128, or 32768, if there is one.
	masks [3][lanes]byte
	// What riceRawAVX2 tells quotientsAVX2 of the blocks of a unit.
	records [4 * maxWords][4]uint64
}

// Of accelState.wave.
const (
	stateLeft   = iota // the last column
	stateAbove         // what was above it
	stateMean          // all ones if avg(L,T) replaces the first MED in avg(MED,MED)
	stateNotMED        // and the second
)

func (a *accelState) start(h *header, wide bool) {
	a.wave, a.wide, a.masks = [4][4][lanes]byte{}, [4][6][lanes]byte{}, [3][lanes]byte{}
	for c, p := range h.preds {
		fill(&a.wave[stateLeft][c], 128)
		fill(&a.wave[stateAbove][c], 128)
		if p == predAvg {
			fill(&a.wave[stateMean][c], 255)
		}
		if p != predMED {
			fill(&a.wave[stateNotMED][c], 255)
		}
		for i := range 4 {
			for j := 1; j < lanes; j += 2 {
				a.wide[c][i][j] = 128
			}
		}
		a.wide[c][4], a.wide[c][5] = a.wave[stateMean][c], a.wave[stateNotMED][c]
	}
	if h.colour != colourNone {
		fill(&a.masks[0], 255)
		fill(&a.masks[2], 128)
		for i := 0; i < lanes && wide; i += 2 {
			a.masks[2][i] = 0
		}
	}
	if h.colour == colourAvg {
		fill(&a.masks[1], 255)
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

// toRows moves what has been unpacked to rows, as samples if there is a form for it.
func (s *Scratch) toRows(step, first int) {
	if !decodeAVX2 {
		s.columnsToRows(step, first)
		return
	}
	if s.wide {
		s.wideWaves(step, first)
	} else {
		s.waves(step, first)
	}
	transposeAVX2(&s.rows[s.row(0, 0)+step-first], &s.z[0], s.rowLen-1, lanes*s.rowLen, s.coded)
}

// slideRows moves the beginning of the next band to where a band begins.
func (s *Scratch) slideRows() {
	if !decodeAVX2 {
		s.moveRows()
		return
	}
	slideAVX2(&s.rows[s.row(0, 0)], s.rowLen, s.band, s.coded*lanes)
}

// waves makes samples of the residuals of a unit.
func (s *Scratch) waves(step, first int) {
	z, w, channel := &s.z[0], &s.accel.wave, lanes*s.rowLen
	carry := &s.rows[s.row(0, lanes-1)-s.band+step-first]
	x := (step - first) % s.band
	forms := &waveForms[s.samples-1]
	if s.med {
		forms = &waveFormsMED[s.samples-1]
	}
	if step >= s.band && x >= lanes && x+unitSteps <= s.band {
		forms.inner(z, w, carry, channel)
	} else {
		forms.edge(z, w, carry, channel, s.band, x, s.band-step)
	}
}

// waveForm is what makes samples of residuals, of some number of channels.
type waveForm struct {
	inner func(z *byte, state *[4][4][lanes]byte, carry *byte, channel int)
	// edge is for units that have lanes at an edge of the patch.
	edge func(z *byte, state *[4][4][lanes]byte, carry *byte, channel, band, x, top int)
}

// The forms for 1 to 4 channels, and those for patches without another predictor than
// MED.
var (
	waveForms = [4]waveForm{
		{wave1AVX2, wave1EdgeAVX2}, {wave2AVX2, wave2EdgeAVX2}, {wave3AVX2, wave3EdgeAVX2}, {wave4AVX2, wave4EdgeAVX2},
	}
	waveFormsMED = [4]waveForm{
		{wave1MEDAVX2, wave1EdgeMEDAVX2}, {wave2MEDAVX2, wave2EdgeMEDAVX2},
		{wave3MEDAVX2, wave3EdgeMEDAVX2}, {wave4MEDAVX2, wave4EdgeMEDAVX2},
	}
)

// wideWaves is waves for samples of 16 bits, whose channels are taken one by one.
func (s *Scratch) wideWaves(step, first int) {
	for c := range s.samples {
		wave := waveWideAVX2
		if s.preds[c] == predMED {
			wave = waveWideMEDAVX2
		}
		carry := &s.rows[s.row(2*c, lanes-1)-s.band+step-first]
		wave(&s.z[2*c*columnsLen], s.coded*columnsLen, &s.accel.wide[c], carry, lanes*s.rowLen, s.band, (step-first)%s.band, s.band-step)
	}
}

// restore makes samples of what toRows has left as residuals.
func (s *Scratch) restore(rows int, top bool) {
	if !decodeAVX2 {
		s.restoreRows(rows, top)
	}
}
