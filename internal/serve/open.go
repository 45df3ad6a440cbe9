package serve

import (
	"context"
	"errors"

	"github.com/pipefs/pipefs/store"
	"github.com/pipefs/pipefs/transcode"
)

// Cached returns the content of the file pinned, if it is open already, and nil
// otherwise. It does not allocate.
func (h *Handle) Cached() *Content {
	c := h.server.cache.get(h.key)
	if c != nil {
		h.server.stats.hits.Add(1)
	}
	return c
}

// Drop makes the server forget the open content. A reader that holds it keeps it.
func (h *Handle) Drop() {
	s := h.server
	if made := s.cache.drop(h.key); made != nil && !made.shared {
		s.forget(made)
	}
}

// Open opens the file and pins its content.
func (h *Handle) Open(ctx context.Context) (*Content, error) {
	if c := h.Cached(); c != nil {
		return c, nil
	}
	s := h.server
	s.waiting.Add(1)
	defer s.waiting.Add(-1)
	if c, err := s.openAhead(ctx, h); c != nil || err != nil {
		return c, err
	}
	c, err := s.open(ctx, h)
	if err != nil {
		return nil, s.noted(h.file, err)
	}
	c.refs.Store(1)
	if _, made := c.reader.(memory); !made {
		c.fetched = &s.stats.fetched
	}
	s.stats.opened.Add(1)
	return s.cache.put(h.key, c, s)
}

func (s *Server) open(ctx context.Context, h *Handle) (*Content, error) {
	if h.Unchanged() {
		return s.openOriginal(ctx, h)
	}
	// What lies in memory is the nearest, whatever the policy thinks of disks.
	if made := s.recent(h); made != nil {
		return made.content(h)
	}
	from := s.candidates(h)
	if len(from) == 0 {
		return nil, errNoOriginal
	}
	return s.openFrom(ctx, h, from)
}

// openOriginal opens the file as the dataset has it.
func (s *Server) openOriginal(ctx context.Context, h *Handle) (*Content, error) {
	// Where the tree is the dataset's own, its files are the nearest.
	var sample *store.Sample
	if s.packed {
		var err error
		if sample, err = s.stored(h.file); err != nil {
			return nil, err
		}
	}
	if sample != nil {
		if rep := sample.Representation(transcode.Original); rep != nil {
			r, err := s.openStored(h.file, rep, 0)
			if err != nil {
				return nil, err
			}
			return &Content{size: r.Size(), reader: r}, nil
		}
	}
	file, err := s.openOwn(h)
	if err == nil {
		return &Content{size: h.file.Identity.Size, reader: file}, nil
	}
	if rebuilt, from := s.rebuild(h, sample); rebuilt != nil {
		return s.openRebuilt(ctx, rebuilt, &from)
	}
	return nil, err
}

// openRebuilt opens an original that the store rebuilds. The file itself costs less, where
// Nearby has it: it is read until that fails, because it changed or its disk is gone.
func (s *Server) openRebuilt(ctx context.Context, h *Handle, from *candidate) (*Content, error) {
	if s.o.Nearby != nil {
		if file, err := openIn(s.o.Nearby, h.file); err == nil {
			return &Content{size: h.size, reader: &fallbackReader{
				sized:   ownFile{file},
				instead: func(error) (*Content, error) { return s.openResult(context.Background(), h, from) },
			}}, nil
		}
	}
	return s.openResult(ctx, h, from)
}

// openFrom opens a file from the representation that the policy chooses.
func (s *Server) openFrom(ctx context.Context, h *Handle, from candidates) (*Content, error) {
	chosen := s.choose(h, from)
	var c *Content
	var err error
	if chosen.Steps == h.plan.Len() {
		c, err = s.openWhole(h, from, chosen)
	} else {
		c, err = s.openResult(ctx, h, chosen)
	}
	if rest, ok := s.fallback(h, from, err); ok {
		return s.openFrom(ctx, h, rest)
	}
	return c, err
}

// choose asks the policy, and counts its answers where there was a choice.
func (s *Server) choose(h *Handle, from candidates) *candidate {
	chosen := &from[s.o.Policy.Choose(from.request(h))]
	if len(from) > 1 {
		if chosen.Steps == h.plan.Len() {
			s.stats.materialized.Add(1)
		} else {
			s.stats.computed.Add(1)
		}
	}
	return chosen
}

func (s *Server) openWhole(h *Handle, from candidates, chosen *candidate) (*Content, error) {
	r, err := s.openCandidate(h, chosen)
	if err != nil {
		return nil, err
	}
	size := r.Size()
	r = s.meter.metered(r)
	if chosen.in != nil {
		r = &fallbackReader{sized: r, instead: func(cause error) (*Content, error) {
			rest, ok := s.fallback(h, from, cause)
			if !ok {
				return nil, cause
			}
			// Not the context of one reader: the others get the same.
			c, err := s.openFrom(context.Background(), h, rest)
			if err != nil {
				return nil, errors.Join(err, cause)
			}
			return c, nil
		}}
	}
	return &Content{size: size, reader: r}, nil
}

func (s *Server) openResult(ctx context.Context, h *Handle, chosen *candidate) (*Content, error) {
	pixels := s.pixels(ctx, h, chosen)
	if pixels != nil {
		defer pixels.made.release()
		chosen = pixels
	}
	made, err := s.make(ctx, s.crewFor(ctx), h, chosen)
	if err != nil {
		return nil, err
	}
	return made.content(h)
}

// makeFrom makes the result of what leaves the least to compute, and of something else
// where that is a copy that is lost.
func (s *Server) makeFrom(ctx context.Context, by *crew, h *Handle, from candidates) (*result, error) {
	made, err := s.make(ctx, by, h, from.longest(h))
	if rest, ok := s.fallback(h, from, err); ok {
		return s.make(ctx, by, h, rest.longest(h))
	}
	return made, err
}

// StoredBothWays reports whether a view of a file is materialized and can also be
// made from something shorter, so that there is something to mix. A sample that is
// damaged is not.
func (s *Server) StoredBothWays(ctx context.Context, f File, v transcode.Pipeline) (bool, error) {
	h, err := s.Resolve(ctx, 0, f, v, Planned)
	switch {
	case errors.Is(err, errFault), isFault(err):
		return false, nil
	case err != nil || h.Unchanged():
		return false, err
	}
	from := s.candidates(h)
	return len(from) > 1 && from.whole(h) != nil, nil
}
