package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/pipefs/pipefs/internal/account"
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
		return made.content(h), nil
	}
	from := s.candidates(h)
	if len(from) == 0 {
		return nil, errNoOriginal
	}
	return s.openFrom(ctx, h, from)
}

// openOriginal opens the file as the dataset has it.
func (s *Server) openOriginal(ctx context.Context, h *Handle) (*Content, error) {
	lap := account.From(ctx).Lap()
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
			lap.End(account.Source)
			if err != nil {
				return nil, err
			}
			return &Content{size: r.Size(), reader: r}, nil
		}
	}
	file, err := s.openOwn(h)
	lap.End(account.Source)
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
		lap := account.From(ctx).Lap()
		c, err = s.openWhole(h, from, chosen)
		lap.End(account.Source)
	} else {
		c, err = s.openResult(ctx, h, chosen)
	}
	if rest, ok := s.fallback(h, from, chosen, err); ok {
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
			rest, ok := s.fallback(h, from, chosen, cause)
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
	made, err := s.make(ctx, s.limiterFor(ctx), h, chosen)
	if err != nil {
		return nil, err
	}
	return made.content(h), nil
}

// makeFrom makes the result of what leaves the least to compute, and of something else
// where that is a copy that is lost.
func (s *Server) makeFrom(ctx context.Context, by *limiter, h *Handle, from candidates) (*result, error) {
	for {
		chosen := from.longest(h)
		made, err := s.make(ctx, by, h, chosen)
		rest, ok := s.fallback(h, from, chosen, err)
		if !ok {
			return made, err
		}
		from = rest
	}
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

// A copy is a representation that can be made again: of an overlay, or of a
// fraction. When it turns out damaged, or is taken away while it is in use, what it
// stands for is made from the others, and no reader notices.

// fallback returns the candidates without the chosen one, where that is a copy that is lost; ok is false if it is
// not, or if it was the only one. The copy is forgotten, so that it is made again.
func (s *Server) fallback(h *Handle, from candidates, chosen *candidate, err error) (rest candidates, ok bool) {
	if chosen.in == nil || !store.Lost(err) {
		return nil, false
	}
	rest = slices.DeleteFunc(slices.Clone(from), func(c candidate) bool { return c.in == chosen.in && c.key == chosen.key })
	if len(rest) == 0 {
		return nil, false
	}
	chosen.in.Forget(h.file.Path, storedAs(h.file.Identity), chosen.key)
	s.stats.fallbacks.Add(1)
	s.log.Warn("a stored copy cannot be read; its bytes are made again. pipefs check tells what is damaged", "sample", h.file.Path, "view", h.view, "cause", err)
	return rest, true
}

// fallbackReader reads what may be lost while it is read, and something else from then
// on.
type fallbackReader struct {
	sized
	// instead opens the other, or returns the cause where there is none.
	instead func(cause error) (*Content, error)

	mu    sync.Mutex
	other *Content
}

// ReadAt implements [io.ReaderAt].
func (r *fallbackReader) ReadAt(b []byte, off int64) (int, error) {
	r.mu.Lock()
	other := r.other
	r.mu.Unlock()
	if other == nil {
		n, err := r.sized.ReadAt(b, off)
		if err == nil || errors.Is(err, io.EOF) {
			return n, err
		}
		if other, err = r.replace(err); err != nil {
			return 0, err
		}
	}
	return other.ReadAt(b, off)
}

// replace opens the other, once for all readers.
func (r *fallbackReader) replace(cause error) (*Content, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.other == nil {
		c, err := r.instead(cause)
		if err != nil {
			return nil, err
		}
		c.refs.Store(1)
		r.other = c
	}
	return r.other, nil
}

// Close implements [io.Closer].
func (r *fallbackReader) Close() error {
	if r.other != nil {
		r.other.Release()
	}
	return r.sized.Close()
}

// rebuilding is how the original is given back by a store that has not got it:
// from all parts of the sample, and from the data that reconstructs the file from them.
type rebuilding struct {
	kind           *transcode.Kind
	reconstruction *store.Representation
	work           int64 // bytes of memory that it takes, about; the parts not counted
}

// rebuild returns a handle of the original that the store gives back, and what it is made
// from; nil where the store cannot. Its result has a key that no other has.
func (s *Server) rebuild(h *Handle, sample *store.Sample) (*Handle, candidate) {
	kind := s.restorer(sample)
	if kind == nil {
		return nil, candidate{}
	}
	parts, reconstruction := sample.Representation(transcode.SplitKey(kind)), sample.Representation(transcode.ReconstructionKey(kind))
	pixels := int64(sample.Info.Width) * int64(sample.Info.Height)
	rebuilt := &Handle{
		server: s, key: h.key, file: h.file, view: h.view, size: h.size, result: h.result, sample: sample,
		rebuild: &rebuilding{
			kind:           kind,
			reconstruction: reconstruction,
			// coefficients take two bytes a sample of each channel
			work: 2*pixels*int64(sample.Info.Mode.Channels()) + h.file.Identity.Size,
		},
	}
	return rebuilt, candidate{stored: parts}
}

// restorer is the kind of step whose parts of a sample are stored together with what
// reconstructs the file from them; nil where there is none.
func (s *Server) restorer(sample *store.Sample) *transcode.Kind {
	if sample == nil {
		return nil
	}
	for _, k := range s.kinds {
		if k.Split != nil && k.Restore != nil &&
			sample.Representation(transcode.SplitKey(k)) != nil && sample.Representation(transcode.ReconstructionKey(k)) != nil {
			return k
		}
	}
	return nil
}

// run gives the original back. What goes wrong is a broken promise of ours, as it
// could be given back when it was packed, but for limits, which may be lower now.
func (r *rebuilding) run(ctx context.Context, s *Server, f File, parts []byte) (transcode.Split, error) {
	reconstruction, err := r.read(s, f)
	if err != nil {
		return transcode.Split{}, err
	}
	data, err := s.o.Registry.Restore(ctx, r.kind, parts, reconstruction)
	switch {
	case ctx.Err() != nil:
		return transcode.Split{}, ctx.Err()
	case errors.Is(err, transcode.ErrUnsupported):
		return transcode.Split{}, fmt.Errorf("rebuilding the original: %w", err)
	case err != nil:
		// %v: to readers it must not look like a fault of the sample
		return transcode.Split{}, transcode.Errorf(transcode.ErrInternal, "rebuilding the original: %v", err)
	case int64(len(data)) != f.Identity.Size:
		return transcode.Split{}, transcode.Errorf(transcode.ErrInternal, "rebuilding the original gave %d bytes where %d were promised", len(data), f.Identity.Size)
	}
	return transcode.Split{Data: data, Ends: []int{len(data)}}, nil
}

func (r *rebuilding) read(s *Server, f File) ([]byte, error) {
	from, err := s.openStored(f, r.reconstruction, 0)
	if err != nil {
		return nil, err
	}
	defer from.Close()
	if err := s.o.Registry.Limits().CheckFile(from.Size()); err != nil {
		return nil, err
	}
	data := make([]byte, from.Size())
	if n, err := from.ReadAt(data, 0); n < len(data) {
		if err == nil {
			err = io.ErrUnexpectedEOF
		}
		return nil, fmt.Errorf("reading what rebuilds the original: %w", err)
	}
	return data, nil
}

// Rebuilt counts the samples whose original is rebuilt when it is first read, which takes
// a JPEG of the usual size 2 to 3 ms of CPU. The files of Nearby do not count: each may
// be there or not.
func (s *Server) Rebuilt() (samples int64, err error) {
	if s.o.Store == nil || s.o.Dataset != nil {
		return 0, nil
	}
	for _, alike := range s.o.Store.Stats().WithoutOriginal {
		sample, err := s.o.Store.Lookup(alike.Example)
		if err != nil {
			return 0, err
		}
		if s.restorer(&sample) != nil {
			samples += alike.Samples
		}
	}
	return samples, nil
}
