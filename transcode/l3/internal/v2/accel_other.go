//go:build !amd64

package v2

import "github.com/pipefs/pipefs/transcode"

// The forms of a decoder's parts. There is assembly for amd64 only.

type accelState struct{}

func (*accelState) start(*header, bool) {}

func (*Scratch) padded(src []byte, _ int) []byte           { return src }
func (s *Scratch) unpack(src, codes []byte) bool           { return s.unpackBlocks(src, codes) }
func (s *Scratch) toRows(step, first int)                  { s.columnsToRows(step, first) }
func (s *Scratch) shiftRows()                              { s.moveRows() }
func (s *Scratch) restore(rows int, top bool)              { s.restoreRows(rows, top) }
func (s *Scratch) place(dst transcode.Target, y, rows int) { s.placeRows(dst, y, rows) }

// encodeAccelerated says that there are forms in assembly.
const encodeAccelerated = false

const encodeAbsent = "v2: no assembly for this architecture"

func deinterleave3AVX2(*byte, *byte, *byte, *byte, int)         { panic(encodeAbsent) }
func deinterleave4AVX2(*byte, *byte, *byte, *byte, *byte, int)  { panic(encodeAbsent) }
func coloursAVX2(*byte, int, int)                               { panic(encodeAbsent) }
func residualsAVX2(*byte, *byte, *byte, *byte, *byte, int)      { panic(encodeAbsent) }
func residualsMEDAVX2(*byte, *byte, *byte, int)                 { panic(encodeAbsent) }
func fastCostsAVX2(*uint16, *byte, int, int) int                { panic(encodeAbsent) }
func denseCostsAVX2(*uint16, *byte, int, int) int               { panic(encodeAbsent) }
func emitAVX2(*byte, *byte, *[8]uint64, *byte, int, uint64) int { panic(encodeAbsent) }
