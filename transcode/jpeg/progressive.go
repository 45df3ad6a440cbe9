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
	// Skipped is Coefficients.Skipped of the input: more than 0 means that libjpeg
	// would warn of corrupt data, and that it was kept as libjpeg shows it.
	Skipped int
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

// Progressive transcodes a whole file to a progressive one without loss. The
// result equals that of jpegtran -copy all -progressive byte for byte:
//
//   - libjpeg's default script and optimal Huffman tables, no restart markers;
//   - all COM and APPn segments, except that libjpeg writes the JFIF segment of
//     YCbCr and grey pictures and the Adobe segment of RGB pictures anew;
//   - bytes that belong to no segment, and those after EOI, dropped.
//
// What it takes and what it refuses is what Decode does; in addition it refuses
// coefficients that no 8-bit picture has, as transcode.ErrBad. Transcoding a
// result again changes nothing.
func Progressive(src []byte, lim Limits) (Scans, error) {
	return Transcode(src, Options{Limits: lim})
}

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

// Transcode is Progressive with options.
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
	s.Skipped = w.c.Skipped
	if o.Reconstruct && err == nil {
		s.Reconstruction = w.reconstruction(src, s.Data, t)
	}
	return s, err
}
