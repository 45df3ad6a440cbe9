package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/pipefs/pipefs/internal/source"
	"github.com/pipefs/pipefs/transcode"
)

// finish fills in a result and wakes the readers that wait for it. What a reader made is
// kept afterwards; no reader waits for that.
func (s *Server) finish(ctx context.Context, by *crew, made *result, h *Handle, from *candidate) {
	made.err = s.attempt(ctx, by, made, h, from)
	s.mu.Lock()
	// A reader may have taken over what the background was making.
	if now, ok := s.results.Get(made.key); made.err == nil && (!ok || now == made) {
		s.remember(made, int64(len(made.split.Data))) // its cost is known only now
	}
	s.mu.Unlock()
	if made.err != nil && !isFault(made.err) {
		s.forget(made)
	}
	close(made.done)
	if made.err == nil && by == s.readers && h.worthKeeping() {
		s.keeper.offer(h, made)
	}
}

// attempt is run, counted. A panic is an error of ours.
func (s *Server) attempt(ctx context.Context, by *crew, made *result, h *Handle, from *candidate) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = transcode.Errorf(transcode.ErrInternal, "making %s: panic: %v", made.key.plan, r)
			s.stats.panics.Add(1)
		}
	}()
	if err := s.run(ctx, by, made, h, from); err != nil {
		if !errors.Is(err, context.Canceled) {
			s.stats.failed.Add(1)
		}
		return err
	}
	s.stats.produced.Add(1)
	if h.rebuild != nil {
		s.stats.rebuilt.Add(1)
	}
	return nil
}

// run computes the steps that remain after a candidate.
func (s *Server) run(ctx context.Context, by *crew, made *result, h *Handle, from *candidate) error {
	if err := by.join(ctx); err != nil {
		return err
	}
	defer by.leave()
	r, err := s.openCandidate(h, from)
	if err != nil {
		return err
	}
	defer r.Close()
	// A store may have been packed with a higher limit.
	if err := s.o.Registry.Limits().CheckFile(r.Size()); err != nil {
		return err
	}
	taken, err := by.take(ctx, h.work()+r.Size())
	if err != nil {
		return err
	}
	defer by.give(taken)
	src := s.sources.get(r.Size())
	defer func() {
		if split := &made.split; !within(split.Data, src) && !within(split.Tail, src) && !within(split.Reconstruction, src) {
			s.sources.put(src)
		}
	}()
	switch n, err := s.meter.metered(r).ReadAt(src, 0); {
	case n == len(src):
		s.stats.fetched.Add(int64(n))
	case errors.Is(err, io.EOF):
		return fmt.Errorf("%s: %w", h.file.Path, source.ErrChanged)
	default:
		return err
	}
	defer s.meter.computing()()
	started := time.Now()
	defer func() { s.stats.busy.Add(int64(time.Since(started))) }()
	if h.rebuild != nil {
		made.split, err = h.rebuild.run(ctx, s, h.file, src)
		return err
	}
	made.split, made.buffer, err = s.compute(ctx, h, from, src)
	return err
}

// compute runs the steps that remain on the bytes of a candidate. Where the result lies
// in memory that others may have afterwards, that is returned as well.
func (s *Server) compute(ctx context.Context, h *Handle, from *candidate, src []byte) (made transcode.Split, buffer []byte, err error) {
	if head, ok := h.plan.Head(); ok && h.plan.Len() == 1 {
		made, err = head.Kind.Split(ctx, src, s.o.Registry.Limits(), false)
		return made, nil, err
	}
	var lent []byte
	data, err := from.plan.RunAfter(ctx, from.after, src, func(n int64) []byte {
		lent = s.outputs.get(n)
		return lent
	})
	if err != nil {
		return made, nil, err
	}
	if within(data, lent) {
		buffer = lent
	}
	return transcode.Split{Data: data, Ends: []int{len(data)}}, buffer, nil
}

// work is about how many bytes of memory it takes to make the file, the source not
// counted.
func (h *Handle) work() int64 {
	if h.rebuild != nil {
		return h.rebuild.work
	}
	return h.plan.Work()
}

// Made is a result that is in no cache.
type Made struct {
	Split transcode.Split
	// Release gives its memory back.
	Release func()
}

// Make makes the file of a handle, and puts it into no cache: no other reader will
// ask for it.
func (h *Handle) Make(ctx context.Context) (Made, error) {
	s := h.server
	from := s.candidates(h)
	for {
		if len(from) == 0 {
			return Made{}, errNoOriginal
		}
		made := (&result{from: &s.outputs}).hold()
		err := s.run(ctx, s.readers, made, h, from.longest(h))
		if err == nil {
			return Made{made.split, made.release}, nil
		}
		rest, ok := s.fallback(h, from, err)
		if !ok {
			return Made{}, err
		}
		from = rest
	}
}
