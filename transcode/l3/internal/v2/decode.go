package v2

import (
	"math"
	"unsafe"

	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/l3/internal/layout"
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

// Decode decodes the patch in src[:n] to where dst has it. At least TailLen bytes
// have to follow it. The base of dst is the first sample of the patch. After an
// error some of the samples may have been written.
func Decode(dst layout.Target, src []byte, n, width, height, channels, depth int, s *Scratch) error {
	return DecodeRows(dst, src, n, width, height, height, channels, depth, s)
}

// DecodeRows decodes the first rows of a patch as Decode does, and does not read the bands
// below them.
func DecodeRows(dst layout.Target, src []byte, n, width, height, rows, channels, depth int, s *Scratch) error {
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
func (s *Scratch) bands(dst layout.Target, src []byte, wanted int) error {
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

// allocate makes room for a band of this shape.
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
