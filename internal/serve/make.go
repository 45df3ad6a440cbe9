package serve

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/pipefs/pipefs/internal/account"
	"github.com/pipefs/pipefs/internal/source"
	"github.com/pipefs/pipefs/mixer"
	"github.com/pipefs/pipefs/store"
	"github.com/pipefs/pipefs/transcode"
)

// finish fills in a result and wakes the readers that wait for it. What a reader made is
// kept afterwards; no reader waits for that.
func (s *Server) finish(ctx context.Context, by *limiter, made *result, h *Handle, from *candidate) {
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
	if made.err == nil && by != s.idlers && h.worthKeeping() {
		s.keeper.offer(h, made)
	}
}

// attempt is run, counted. A panic is an error of ours.
func (s *Server) attempt(ctx context.Context, by *limiter, made *result, h *Handle, from *candidate) (err error) {
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
func (s *Server) run(ctx context.Context, by *limiter, made *result, h *Handle, from *candidate) (err error) {
	spent := &made.spent
	defer func() {
		account.From(ctx).Add(spent)
		if err == nil {
			s.o.Account.View(h.view.String()).Made(spent)
		}
	}()
	lap := spent.Lap()
	if err := by.join(ctx); err != nil {
		return err
	}
	defer by.leave()
	lap.End(account.Worker)
	var r sized
	need := h.work()
	if from.made == nil {
		if r, err = s.openCandidate(h, from); err != nil {
			return err
		}
		defer r.Close()
		lap.End(account.Source)
		// A store may have been packed with a higher limit.
		if err := s.o.Registry.Limits().CheckFile(r.Size()); err != nil {
			return err
		}
		need += r.Size()
	}
	taken, err := by.take(ctx, need)
	if err != nil {
		return err
	}
	defer by.give(taken)
	lap.End(account.Memory)
	if from.made != nil {
		return s.work(ctx, by, made, h, from, from.made.split.Data)
	}
	src := s.sources.get(r.Size())
	defer func() {
		if split := &made.split; !transcode.Within(split.Data, src) && !transcode.Within(split.Tail, src) && !transcode.Within(split.Reconstruction, src) {
			s.sources.put(src)
		}
	}()
	spent.Fetched, err = s.fetch(h, from, r, src)
	lap.End(account.Source)
	if err != nil {
		return err
	}
	return s.work(ctx, by, made, h, from, src)
}

// work computes the steps that remain, from the bytes of a candidate.
func (s *Server) work(ctx context.Context, by *limiter, made *result, h *Handle, from *candidate, src []byte) (err error) {
	lap := made.spent.Lap()
	for c := by.compute; c != nil; c = c.compute {
		if err := c.join(ctx); err != nil {
			return err
		}
		defer c.leave()
	}
	lap.End(account.Worker)
	defer s.meter.computing()()
	var within account.Spent // what computing waits for
	ctx = account.With(ctx, &within)
	defer func() {
		lap.End(account.Compute)
		made.spent.Parts[account.Compute] -= within.Parts[account.Memory]
		made.spent.Add(&within)
		s.stats.busy.Add(int64(made.spent.Parts[account.Compute]))
	}()
	if h.rebuild != nil {
		made.split, err = h.rebuild.run(ctx, s, h.file, src)
		return err
	}
	made.split, made.buffer, err = s.compute(ctx, h, from, src, made.into)
	return err
}

// fetch reads a candidate into src, which is as long. Where the plan takes rows of raw pixels,
// those are read, and the rest of src holds anything. It returns how many bytes were read.
func (s *Server) fetch(h *Handle, from *candidate, r sized, src []byte) (fetched int64, err error) {
	chunk := int64(1)
	if _, stored := r.(*store.Reader); stored {
		chunk = store.ChunkSize // it is checked as a whole: part of one is read elsewhere, and copied
	}
	r = s.meter.metered(r)
	read := func(begin, end int64) error {
		n, err := r.ReadAt(src[begin:end], begin)
		s.stats.fetched.Add(int64(n))
		fetched += int64(n)
		switch {
		case int64(n) == end-begin:
			return nil
		case errors.Is(err, io.EOF):
			return fmt.Errorf("%s: %w", h.file.Path, source.ErrChanged)
		}
		return err
	}
	size := int64(len(src))
	if h.rebuild != nil || from.after > 0 {
		err = read(0, size)
		return fetched, err
	}
	part := from.plan.Part()
	if part == nil {
		err = read(0, size)
		return fetched, err
	}
	head := min(max(transcode.HeadLen, chunk), size)
	if err := read(0, head); err != nil {
		return fetched, err
	}
	begin, end := part(src[:min(transcode.HeadLen, size)], size)
	begin, end = max(begin/chunk*chunk, head), min((end+chunk-1)/chunk*chunk, size)
	if begin < end {
		err = read(begin, end)
	}
	return fetched, err
}

// compute runs the steps that remain on the bytes of a candidate. Where the result lies
// in memory that others may have afterwards, that is returned as well. With into, a plan that
// ends in an npy file makes the values of it, there if it can.
func (s *Server) compute(ctx context.Context, h *Handle, from *candidate, src, into []byte) (made transcode.Split, buffer []byte, err error) {
	if head, ok := h.plan.Head(); ok && h.plan.Len() == 1 {
		made, err = s.o.Registry.Split(ctx, head.Kind, src, false)
		return made, nil, err
	}
	var lent []byte
	plan, alloc := *from.plan, func(n int64) []byte {
		lent = s.outputs.get(n)
		return lent
	}
	if into != nil && from.after < plan.Len() {
		plan, alloc = plan.Values(), func(int64) []byte { return into }
	}
	data, err := plan.RunAfter(ctx, from.after, src, alloc)
	if err != nil {
		return made, nil, err
	}
	if transcode.Within(data, lent) {
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
	return h.plan.Work(0, nil)
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
	made, err := h.server.makeAlone(ctx, h.server.readers, h, nil)
	if err != nil {
		return Made{}, err
	}
	return Made{made.split, made.release}, nil
}

// MakeValues makes the values of the npy file of a handle, which are as long as dst, in dst.
// More samples than there are workers may be made at once: those that nobody computes are read
// meanwhile. Otherwise it is Make.
func (h *Handle) MakeValues(ctx context.Context, dst []byte) error {
	made, err := h.server.makeAlone(ctx, h.server.loaders, h, dst)
	if err != nil {
		return err
	}
	defer made.release()
	// A file that was stored has a header, and ends in the values.
	data := made.split.Data
	if !transcode.Within(data, dst) {
		copy(dst, data[len(data)-len(dst):])
	}
	return nil
}

// makeAlone makes a result that is in no cache, held; see compute for into.
func (s *Server) makeAlone(ctx context.Context, by *limiter, h *Handle, into []byte) (*result, error) {
	from := s.candidates(h)
	for {
		if len(from) == 0 {
			return nil, errNoOriginal
		}
		made := (&result{from: &s.outputs, into: into}).hold()
		chosen := from.longest(h)
		err := s.run(ctx, by, made, h, chosen)
		if err == nil {
			return made, nil
		}
		rest, ok := s.fallback(h, from, chosen, err)
		if !ok {
			return nil, err
		}
		from = rest
	}
}

// Fetched is what a view's file is made from, in memory: loading has been done and
// decoding has not, so that the two can be measured one by one.
type Fetched struct {
	// Bytes is how many were read.
	Bytes int64

	handle *Handle
	from   *candidate // nil: the bytes are the file itself
	data   []byte
}

// Fetch reads what a policy chooses to make the file from. A file that
// the view does not change is read as it is.
func (h *Handle) Fetch(ctx context.Context, policy mixer.Policy) (Fetched, error) {
	s := h.server
	got := Fetched{handle: h}
	var r ReaderAt
	if h.Unchanged() {
		c, err := s.openOriginal(ctx, h)
		if err != nil {
			return Fetched{}, err
		}
		r, got.Bytes = c.reader, c.size
	} else {
		from := s.candidates(h)
		if len(from) == 0 {
			return Fetched{}, errNoOriginal
		}
		chosen := &from[policy.Choose(from.request(h))]
		if chosen.Steps < h.plan.Len() {
			got.from = chosen
		}
		whole, err := s.openCandidate(h, chosen)
		if err != nil {
			return Fetched{}, err
		}
		r, got.Bytes = whole, whole.Size()
	}
	defer r.Close()
	if err := s.o.Registry.Limits().CheckFile(got.Bytes); err != nil {
		return Fetched{}, fmt.Errorf("%s: %w", h.file.Path, err)
	}
	got.data = make([]byte, got.Bytes)
	if n, err := r.ReadAt(got.data, 0); int64(n) < got.Bytes {
		if err == nil {
			err = io.ErrUnexpectedEOF
		}
		return Fetched{}, fmt.Errorf("%s: %w", h.file.Path, err)
	}
	return got, nil
}

// Finish computes what remains and throws it away.
func (g Fetched) Finish(ctx context.Context) error {
	if g.from == nil {
		return nil
	}
	s := g.handle.server
	_, buffer, err := s.compute(ctx, g.handle, g.from, g.data, nil)
	s.outputs.put(buffer)
	return err
}
