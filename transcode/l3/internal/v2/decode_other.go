//go:build !amd64

package v2

import "github.com/pipefs/pipefs/transcode/l3/internal/layout"

// The forms of a decoder's parts. There is assembly for amd64 only.

type accelState struct{}

func (*accelState) start(*header, bool) {}

func (*Scratch) padded(src []byte, _ int) []byte        { return src }
func (s *Scratch) unpack(src, codes []byte) bool        { return s.unpackBlocks(src, codes) }
func (s *Scratch) toRows(step, first int)               { s.columnsToRows(step, first) }
func (s *Scratch) shiftRows()                           { s.moveRows() }
func (s *Scratch) restore(rows int, top bool)           { s.restoreRows(rows, top) }
func (s *Scratch) place(dst layout.Target, y, rows int) { s.placeRows(dst, y, rows) }
