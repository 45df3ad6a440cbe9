package serve

import (
	"context"

	"github.com/pipefs/pipefs/mixer"
	"github.com/pipefs/pipefs/transcode"
)

// One draw decodes no more than it crops. A program that takes several draws of a sample,
// such as the ten crops of DINO, takes them right after each other: they are made of pixels
// that were decoded once, and stay in memory for a while. The server tells such a program by
// what it reads. A seed of which a second draw of an epoch was asked for belongs to one, and
// from then on the first draw of a sample decodes it whole. Where paths name other views and
// no repeat, a sample that is drawn again while it is among those that were drawn last does.

// drawnSamples is how many samples that were drawn last are remembered: as many processes
// may take several draws each.
const drawnSamples = 256

// severalSeeds is how many seeds of programs that take several draws are remembered.
const severalSeeds = 64

// pixels returns the pixels that a draw starts from in place of what was chosen, which are
// held; or nil, where it starts from that.
func (s *Server) pixels(ctx context.Context, h *Handle, chosen *candidate) *candidate {
	// Of a file of pixels a draw reads the rows that it takes.
	if !h.plan.Random() || chosen.after == 0 && chosen.plan.Part() != nil {
		return nil
	}
	before, ok := wholePixels(&h.plan)
	if !ok {
		return nil
	}
	d, _ := h.view.DrawOf(h.file.Path)
	if !s.drawnSeveral(resultKey{h.file, before.Key}, &before.Stored, d) {
		return nil
	}
	of := &Handle{server: s, key: h.key, file: h.file, view: h.view, plan: before.Stored, result: before.Key, sample: h.sample, brief: true}
	made := s.recent(of)
	if made == nil {
		from := s.candidates(of)
		if len(from) == 0 {
			return nil
		}
		var err error
		if made, err = s.makeFrom(ctx, s.readers, of, from); err != nil {
			return nil // the draw itself will say so
		}
	}
	return &candidate{
		Candidate: mixer.Candidate{Steps: before.Steps, Bytes: int64(len(made.split.Data))},
		prefix:    prefix{key: before.Key, steps: before.Steps, plan: &before.Rest},
		made:      made,
	}
}

// wholePixels is the longest prefix of a plan whose result is pixels that do not depend on
// the draw. PNM has them in the order in which they are decoded.
func wholePixels(p *transcode.Plan) (longest transcode.PixelPrefix, ok bool) {
	for _, prefix := range p.PixelPrefixes() {
		steps := prefix.Stored.Steps()
		if steps[len(steps)-1].Kind.Format == transcode.PNM {
			longest, ok = prefix, true
		}
	}
	return longest, ok
}

// drawnSeveral notes that a sample is drawn, and reports whether several draws of it are
// taken. The pixels of a sample that is no longer among those that were drawn last are
// forgotten.
func (s *Server) drawnSeveral(key resultKey, pixels *transcode.Plan, d transcode.Draw) bool {
	size, _ := pixels.Size()
	s.mu.Lock()
	defer s.mu.Unlock()
	if d.Repeat > 0 {
		s.several.Put(d.Seed, true, 0)
	}
	several, _ := s.several.Get(d.Seed)
	_, again := s.drawn.Get(key)
	for _, old := range s.drawn.Put(key, key, size) {
		if old == key {
			continue
		}
		if made, ok := s.results.Remove(old); ok {
			made.release()
		}
	}
	return several || again
}
