package serve

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/pipefs/pipefs/internal/account"
	"github.com/pipefs/pipefs/mixer"
	"github.com/pipefs/pipefs/transcode"
)

// resultKey names a result: a version of a file and what was made of it.
type resultKey struct {
	file File
	plan string
}

// result is a result in memory, or the error that is there instead. It is
// complete when done is closed. The cache of results holds it, and so does
// every caller that got it from make or recent, until release.
type result struct {
	key   resultKey
	done  chan struct{}
	split transcode.Split // a whole result is the only part
	err   error
	// shared: files of several views are parts of it.
	shared bool
	// stop ends the attempt of the background that is making it; nil where a reader
	// is. Readers do not wait for a thread of low priority.
	stop context.CancelFunc

	holders atomic.Int32
	// buffer is where the result lies, if others may have that memory afterwards.
	buffer []byte
	from   *buffers
	into   []byte // see compute
	// spent is where the time of making it went.
	spent account.Spent
}

func (m *result) hold() *result {
	m.holders.Add(1)
	return m
}

// release ends one hold.
func (m *result) release() {
	if m.holders.Add(-1) == 0 {
		m.from.put(m.buffer)
	}
}

// cut is the part of a result's data that a handle takes.
func (m *result) cut(h *Handle) []byte {
	head, ok := h.plan.Head()
	if !ok || h.plan.Len() > 1 {
		return m.split.Data
	}
	return m.split.Data[:m.split.Ends[m.split.Levels[head.Arg-1]-1]]
}

// content opens the result as a handle's content, and passes its hold on to it.
func (m *result) content(h *Handle) *Content {
	size := m.size(h)
	return &Content{size: size, cost: size, reader: memory{m.cut(h), m.split.Tail, m}}
}

// size is that of a handle's content.
func (m *result) size(h *Handle) int64 { return int64(len(m.cut(h)) + len(m.split.Tail)) }

// recent returns a result that is still in memory, or nil.
func (s *Server) recent(h *Handle) *result {
	s.mu.Lock()
	defer s.mu.Unlock()
	made, ok := s.results.Get(resultKey{h.file, h.result})
	if !ok {
		return nil
	}
	if made.complete() && made.err == nil {
		return made.hold()
	}
	return nil
}

// complete reports whether done is closed.
func (m *result) complete() bool {
	select {
	case <-m.done:
		return true
	default:
		return false
	}
}

// make makes the result of a handle from one candidate, once: everybody who wants
// it meanwhile waits for the same one. A reader does not wait for the background: it
// makes the result itself, and the background's attempt ends. Without an error the
// result has to be released.
func (s *Server) make(ctx context.Context, by *limiter, h *Handle, from *candidate) (*result, error) {
	key := resultKey{h.file, h.result}
	for {
		s.mu.Lock()
		made, ok := s.results.Get(key)
		if ok && by != s.idlers && made.stop != nil && !made.complete() {
			made.stop()
			ok = false
		}
		if !ok {
			_, parts := h.plan.Head()
			made = (&result{key: key, done: make(chan struct{}), from: &s.outputs, shared: parts}).hold()
			making := ctx
			if by == s.idlers {
				making, made.stop = context.WithCancel(ctx)
				defer made.stop()
			}
			s.remember(made, 0)
			s.mu.Unlock()
			s.finish(making, by, made, h, from)
		} else {
			made.hold()
			s.mu.Unlock()
			asked := time.Now()
			select {
			case <-made.done:
				account.From(ctx).Share(&made.spent, time.Since(asked))
			case <-ctx.Done():
				made.release()
				return nil, ctx.Err()
			}
		}
		if made.err == nil {
			return made, nil
		}
		made.release()
		// The one who was making it may have been interrupted; we were not.
		if ok && (errors.Is(made.err, context.Canceled) || errors.Is(made.err, context.DeadlineExceeded)) {
			s.forget(made)
			continue
		}
		return nil, made.err
	}
}

// remember puts a result into the cache, with s.mu held. One of the same key goes.
func (s *Server) remember(made *result, cost int64) {
	made.hold()
	for _, dropped := range s.results.Put(made.key, made, cost) {
		dropped.release()
	}
}

// forget removes a result from the cache unless another has taken its place.
func (s *Server) forget(made *result) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now, ok := s.results.Get(made.key); ok && now == made {
		s.results.Remove(made.key)
		made.release()
	}
}

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
