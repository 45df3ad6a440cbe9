package serve

import (
	"context"

	"github.com/pipefs/pipefs/mixer"
	"github.com/pipefs/pipefs/store"
	"github.com/pipefs/pipefs/transcode"
)

// Explanation says how a file of a view is made.
type Explanation struct {
	Plan transcode.Plan
	// Size of the file in bytes; -1: it is not known before the file is made.
	Size int64
	// From is where a read begins, and Computed how many steps follow.
	From     string
	Computed int
	// Failed is why a reader could not read the sample; empty if none met that.
	Failed string
}

// Explain says how a file of a view is made, and makes nothing.
func (s *Server) Explain(ctx context.Context, key Key, f File, v transcode.Pipeline) (Explanation, error) {
	h, err := s.resolve(ctx, key, f, v, Planned)
	if err != nil {
		return Explanation{}, err
	}
	e := Explanation{Plan: h.plan, Size: h.size}
	if s.cache.peek(key) {
		e.From = "memory: a reader has opened the file"
		return e, nil
	}
	if h.Unchanged() {
		e.From, err = s.explainOriginal(h)
		return e, err
	}
	e.Failed = s.bad.cause(f.Path)
	if made := s.recent(h); made != nil {
		made.release()
		e.From = "memory: it was made a moment ago"
		return e, nil
	}
	from := s.candidates(h)
	if len(from) == 0 {
		return e, errNoOriginal
	}
	chosen, mixed := from.longest(h), false
	switch s.o.Policy.(type) {
	case mixer.Longest, mixer.Fixed: // they answer the same each time
		chosen = &from[s.o.Policy.Choose(from.request(h))]
	default:
		mixed = len(from) > 1
	}
	e.From, e.Computed = chosen.explain(), h.plan.Len()-chosen.Steps
	if whole := from.whole(h); e.Size < 0 && whole != nil {
		e.Size = whole.Bytes
	}
	if mixed {
		e.From += "; the mix may choose something shorter at a read"
	}
	return e, nil
}

// explainOriginal says where the bytes of a file are that a view shows as it is.
func (s *Server) explainOriginal(h *Handle) (string, error) {
	if !s.packed {
		return fromDataset, nil
	}
	sample, err := s.stored(h.file)
	switch {
	case err != nil:
		return "", err
	case sample != nil && sample.Representation(transcode.Original) != nil:
		return "the store, which holds the file as it is", nil
	case s.o.Dataset != nil:
		return fromDataset, nil
	case s.restorer(sample) != nil:
		return "the store, which rebuilds the file from its scans", nil
	}
	return "", errNoOriginal
}

const fromDataset = "the file of the dataset"

// explain says what a candidate is.
func (c *candidate) explain() string {
	what := c.key
	if what == transcode.Original {
		what = "the file as it is"
	}
	switch c.in.(type) {
	case *store.Overlay:
		return "what mounts have kept on disk: " + what
	case *store.Fraction:
		return "what is materialized in the store: " + what
	}
	if c.Dataset {
		return fromDataset
	}
	return "the store: " + what
}
