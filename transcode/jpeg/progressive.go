package jpeg

import "sync"

// Scans is a progressive file that can be cut between its scans.
//
// The file with only its first k scans is Data[:Ends[k-1]] followed by EOI, the
// two bytes in the variable EOI. Every decoder takes it, and shows a picture of
// full size with less detail. With all scans it is Data itself.
type Scans struct {
	// Data is the whole file, EOI included.
	Data []byte
	// Ends has, for each scan, the offset in Data after its entropy-coded data.
	// The tables between two scans belong to the later one.
	Ends []int
	// Levels has the number of scans for each fidelity level, 1 to 10: level k is
	// element k-1, and never less than the one before. Level 10 is all scans. See
	// levelsOf.
	Levels [10]uint8
	// Reconstruction is what Restore needs beside Data to make the input again; nil where
	// nobody asked for it, and where it is known that this cannot be done.
	// Only Restore tells for sure whether it can.
	Reconstruction []byte
}

// EOI is the marker that ends a file, whole or cut.
var EOI = [2]byte{0xFF, mEOI}

// workspace is what Progressive needs besides its result, kept for the next call.
type workspace struct {
	dec decoder
	enc encoder
	c   Coefficients
}

var workspaces = sync.Pool{New: func() any { return new(workspace) }}

// Options of Transcode.
type Options struct {
	Limits
	// Cuts are the fidelity levels at which the result will be cut. What is
	// delivered between two of them comes in fewer scans than in the default
	// script, where that is possible.
	Cuts Cuts
	// Reconstruct asks for Scans.Reconstruction.
	Reconstruct bool
}

// Transcode transcodes a whole file to a progressive one without loss. Without
// options the result equals that of jpegtran -copy all -progressive byte for byte:
//
//   - libjpeg's default script and optimal Huffman tables, no restart markers;
//   - all COM and APPn segments, except that libjpeg writes the JFIF segment of
//     YCbCr and grey pictures and the Adobe segment of RGB pictures anew;
//   - bytes that belong to no segment, and those after EOI, dropped.
//
// What it takes and what it refuses is what Decode does; in addition it refuses
// coefficients that no 8-bit picture has, as transcode.ErrBad. Transcoding a
// result again changes nothing.
func Transcode(src []byte, o Options) (Scans, error) {
	w := workspaces.Get().(*workspace)
	s, err := w.transcode(src, o)
	w.release()
	return s, err
}

// release keeps the workspace for the next picture.
func (w *workspace) release() {
	if w.size() <= maxKept {
		workspaces.Put(w)
	}
}

// maxKept is the size in bytes up to which working memory is kept for the next
// picture. It is enough for 20 megapixels.
const maxKept = 128 << 20

func (w *workspace) size() int {
	n := cap(w.dec.bits) + w.enc.size()
	for i := range w.c.Components {
		n += 136 * cap(w.c.Components[i].Blocks)
	}
	return n
}

func (w *workspace) transcode(src []byte, o Options) (Scans, error) {
	defer func() { w.c.Segments = nil }() // they are parts of src
	var t *trace
	if o.Reconstruct {
		t = &trace{pads: pads{ones: true, zero: true}}
		w.dec.trace = t
	}
	if err := w.dec.decode(src, o.Limits, &w.c); err != nil {
		return Scans{}, err
	}
	s, err := w.enc.encode(&w.c, o.Cuts)
	if o.Reconstruct && err == nil {
		s.Reconstruction = w.reconstruction(src, s.Data, t)
	}
	return s, err
}

// scan is one line of a script: a band of one component, or of all of them.
type scan struct {
	component int // or allComponents, for DC
	ss, se    int
	ah, al    int
}

const allComponents = -1

// defaultScript returns the script that libjpeg uses by default
// (jpeg_simple_progression): 10 scans for YCbCr, 2+4n otherwise.
func defaultScript(components int, model ColorModel) []scan {
	const all, y, cb, cr = allComponents, 0, 1, 2
	if model == ModelYCbCr && components == 3 {
		return []scan{
			{all, 0, 0, 0, 1},
			{y, 1, 5, 0, 2},
			{cr, 1, 63, 0, 1},
			{cb, 1, 63, 0, 1},
			{y, 6, 63, 0, 2},
			{y, 1, 63, 2, 1},
			{all, 0, 0, 1, 0},
			{cr, 1, 63, 1, 0},
			{cb, 1, 63, 1, 0},
			{y, 1, 63, 1, 0},
		}
	}
	var s []scan
	each := func(ss, se, ah, al int) {
		for i := range components {
			s = append(s, scan{i, ss, se, ah, al})
		}
	}
	s = append(s, scan{all, 0, 0, 0, 1})
	each(1, 5, 0, 2)
	each(6, 63, 0, 2)
	each(1, 63, 2, 1)
	s = append(s, scan{all, 0, 0, 1, 0})
	each(1, 63, 1, 0)
	return s
}

// levelsOf returns how many scans of the default script each fidelity level takes,
// and how many scans there are. Level k is element k-1.
//
// Level k of a YCbCr picture is its first k scans. Any other picture has only
// scans of the kinds that luma has in a YCbCr picture, and its level k takes
// those that would have been there for luma:
//
//	YCbCr                    1  2  3  4  5  6  7  8  9 10
//	grey                     1  2  2  2  3  4  5  5  5  6
//	RGB (n = 3 components)   1  4  4  4  7 10 11 11 11 14
//	n components             1, 1+n ×3, 1+2n, 1+3n, 2+3n ×3, 2+4n
func levelsOf(components int, model ColorModel) (levels [10]uint8, scans int) {
	if model == ModelYCbCr && components == 3 {
		return [10]uint8{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, 10
	}
	n := uint8(components)
	return [10]uint8{1, 1 + n, 1 + n, 1 + n, 1 + 2*n, 1 + 3*n, 2 + 3*n, 2 + 3*n, 2 + 3*n, 2 + 4*n}, 2 + 4*components
}

// Cuts is the set of fidelity levels at which a file can be cut: bit k for level
// k. Level 10 is always in it. The zero value is all ten levels.
type Cuts uint16

// allCuts is what the zero value means.
const allCuts Cuts = 1<<11 - 2

// CutsAt returns the set of the given levels and level 10.
func CutsAt(levels ...int) Cuts {
	c := Cuts(1 << 10)
	for _, k := range levels {
		c |= 1 << k & allCuts
	}
	return c
}

// All reports whether a file can be cut at every level.
func (c Cuts) All() bool { return c&allCuts == 0 || c&allCuts == allCuts }

// Levels returns the levels of the set, ascending.
func (c Cuts) Levels() []int {
	var levels []int
	for k := 1; k <= 10; k++ {
		if c.All() || c>>k&1 == 1 || k == 10 {
			levels = append(levels, k)
		}
	}
	return levels
}

// nearest is the level that level k shows: the largest of the set that is not
// above k, or the smallest where there is none.
func (c Cuts) nearest(k int) int {
	levels := c.Levels()
	nearest := levels[0]
	for _, l := range levels {
		if l <= k {
			nearest = l
		}
	}
	return nearest
}

// script returns the scans for a picture, and how many of them each level takes.
// What the default script delivers between two cuts comes in as few scans as
// progressive JPEG allows, so that the pictures at the cuts stay what they are
// and decoding them takes less time.
func (c Cuts) script(components int, model ColorModel) (script []scan, levels [10]uint8) {
	script = defaultScript(components, model)
	levels, _ = levelsOf(components, model)
	if c.All() {
		return script, levels
	}
	var merged []scan
	var ends [11]uint8 // of each level in the set
	done := uint8(0)
	for _, k := range c.Levels() {
		if upTo := levels[k-1]; upTo > done {
			merged = append(merged, merge(script[done:upTo])...)
			done = upTo
		}
		ends[k] = uint8(len(merged))
	}
	for k := range levels {
		levels[k] = ends[c.nearest(k+1)]
	}
	return merged, levels
}

// merge returns fewer scans that together deliver the same bits.
func merge(scans []scan) []scan {
	var out []scan
	for _, s := range scans {
		if !absorb(out, s) {
			out = append(out, s)
		}
	}
	return out
}

// absorb makes one of the scans in out deliver what s does, if it can. A first
// scan can take the bits that refine it, and a neighbouring band of the same
// bits; a refinement is always one bit: T.81 G.1.1.1.
func absorb(out []scan, s scan) bool {
	for i := range out {
		o := &out[i]
		if o.component != s.component || o.ah != 0 {
			continue
		}
		switch {
		case s.ah > 0 && o.al == s.ah && o.ss == s.ss && o.se == s.se:
			o.al = s.al
			return true
		case s.ah == 0 && s.ss > 0 && o.ss > 0 && o.al == s.al && o.se+1 == s.ss:
			o.se = s.se
			return true
		}
	}
	return false
}
