package serve

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/pipefs/pipefs/internal/account"
	"github.com/pipefs/pipefs/internal/source"
	"github.com/pipefs/pipefs/store"
	"github.com/pipefs/pipefs/transcode"
)

// File names a file of the tree, as it was when it was looked up.
type File struct {
	Path     string
	Identity source.Identity
}

// Key identifies a file of a view within a mount: a number that is never used
// for other bytes.
type Key = uint64

// Effort is how much [Server.Resolve] may do.
type Effort uint8

// The efforts, each more than the one before.
const (
	// Stored: only what the store knows. Nothing is read of the dataset, and nothing is
	// made.
	Stored Effort = iota
	// Planned: the header is read where need be. The size stays unknown unless it has a
	// closed form.
	Planned
	// Sized: the file is made if there is no other way to know its size.
	Sized
	// Verified: the file is made if it is not stored, so that its reader surely gets it.
	Verified
)

// Handle is a file in a view, resolved: what is to be done to open it. It does not
// change, and may be used as long as the file has the identity that it was resolved
// with.
type Handle struct {
	server *Server
	key    Key
	file   File
	view   transcode.Pipeline
	size   int64

	plan    transcode.Plan
	result  string        // the key of the plan's result
	sample  *store.Sample // what the store holds of this version of the file; nil: nothing
	rebuild *rebuilding   // set where the original is rebuilt
	brief   bool          // the result is only for draws that come soon; see pixels
	// final is what a read starts from where that does not change any more: the store
	// holds the very result.
	final candidates

	probed atomic.Pointer[source.File] // see [probed]
}

// Size is that of the file in the view, exact, in bytes. It is -1 if the file was
// resolved with the effort Planned and its size has no closed form.
func (h *Handle) Size() int64 { return h.size }

// Unchanged reports whether the view shows the file as it is.
func (h *Handle) Unchanged() bool { return h.plan.Unchanged() }

// Plan is how the file is made of the original.
func (h *Handle) Plan() transcode.Plan { return h.plan }

// ErrUnknown is that more effort is needed to resolve a file.
var ErrUnknown = errors.New("the store does not know it")

// Resolve decides how a file is shown in a view: this is the only place that decides
// whether it is shown as it is. With the effort Sized it may have to make the file, and
// keeps the result for the reader that opens it.
func (s *Server) Resolve(ctx context.Context, key Key, f File, v transcode.Pipeline, most Effort) (*Handle, error) {
	if !v.Random() { // nothing of it can be made ahead of time
		s.used.use(v)
	}
	s.waiting.Add(1)
	defer s.waiting.Add(-1)
	h, err := s.resolve(ctx, key, f, v, most)
	if err != nil {
		return h, s.noted(f, err)
	}
	if most == Verified {
		return h, s.noted(f, h.Verify(ctx))
	}
	return h, nil
}

// noted is an error of making a file, noted if the sample is at fault.
func (s *Server) noted(f File, err error) error {
	if !IsBad(err) {
		return err
	}
	s.note(f.Path, err)
	if s.o.OnError == Black { // in a batch; in a view a program may pass over it, as long as there are few
		if many := s.Excuse(f.Path, err); many != nil {
			return many
		}
	}
	return err
}

func (s *Server) resolve(ctx context.Context, key Key, f File, v transcode.Pipeline, most Effort) (_ *Handle, err error) {
	h := &Handle{server: s, key: key, file: f, view: v, size: f.Identity.Size, result: transcode.Original}
	if v.Len() == 0 || !s.o.Registry.IsSample(f.Path) {
		return h, nil
	}
	if h.sample, err = s.stored(f); err != nil {
		return h, err
	}
	if most == Stored && h.sample == nil {
		return h, ErrUnknown
	}
	if v.Stored() {
		if shows, err := s.showsStored(ctx, h, most); err != nil || !shows {
			return h, err
		}
	}
	if err := s.fit(ctx, h, most); err != nil || h.Unchanged() {
		return h, err
	}
	err = s.measure(ctx, h, most)
	if s.indivisible(h, err) {
		return s.resolve(ctx, key, f, v, most)
	}
	return h, err
}

// stored returns what the store holds of this very version of the file, or nil.
func (s *Server) stored(f File) (*store.Sample, error) {
	if s.o.Store == nil {
		return nil, nil
	}
	sample, err := s.o.Store.LookupAs(f.Path, storedAs(f.Identity))
	switch {
	case errors.Is(err, store.ErrNotFound) && s.packed && s.o.Dataset == nil:
		return nil, outdated(f.Path)
	case errors.Is(err, store.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return &sample, nil
}

// outdated is the error of a file that no generation has that is still open.
func outdated(path string) error {
	return fmt.Errorf("%s: the generation of the store that had this version of it is not read any more: %w", path, source.ErrChanged)
}

// openStored opens a representation of the store, of this generation or one before.
func (s *Server) openStored(f File, rep *store.Representation, level int) (*store.Reader, error) {
	r, err := s.o.Store.Reader(*rep, level)
	if errors.Is(err, store.ErrNotFound) {
		return nil, outdated(f.Path)
	}
	return r, err
}

// showsStored reports whether a view of what is stored shows the file as its
// steps make it, and not as it is. It reads no file, and for a key it never changes in a
// mount: the kernel caches what a name leads to. What a mount prepares for itself does not
// count, and what proves to be damaged goes on counting; the same bytes are made then.
func (s *Server) showsStored(ctx context.Context, h *Handle, most Effort) (bool, error) {
	if h.sample == nil || h.sample.Fault != "" || !s.o.Policy.Takes(h.key) {
		return false, nil
	}
	plan, err := s.Fit(ctx, h.file, h.view, h.sample.Info, h.sample, most)
	return !plan.Unchanged() && s.o.Store.Holds(h.sample, plan.Key()), err
}

// fit plans the view for the file. What is not there cannot be read, and what the view
// must not blend is refused.
func (s *Server) fit(ctx context.Context, h *Handle, most Effort) error {
	lap := account.From(ctx).Lap()
	info, err := s.header(h)
	lap.End(account.Source)
	if err != nil {
		return err
	}
	h.plan, err = s.Fit(ctx, h.file, h.view, info, h.sample, most)
	lap.End(account.Compute) // it may look at pixels
	if err != nil || h.Unchanged() {
		return err
	}
	of, err := s.follows(ctx, h, most)
	if err != nil {
		return err
	}
	if d, ok := h.view.DrawOf(of); ok {
		h.plan = h.plan.Drawn(d)
	}
	h.result, h.size = h.plan.Key(), -1
	return s.guard(h.file, h.view, h.plan, h.view.Role(s.o.Roles.Of(h.file.Path)))
}

// measure finds the size of the file in the view, and that there is something to make it
// of.
func (s *Server) measure(ctx context.Context, h *Handle, most Effort) error {
	size, closed := h.plan.Size()
	if closed {
		h.size = size
	}
	if most == Planned || most < Verified && closed && s.o.Dataset != nil {
		return nil
	}
	from := s.candidates(h)
	whole := from.whole(h)
	if whole != nil && whole.in == nil {
		h.final = from
	}
	switch {
	case len(from) == 0:
		return errNoOriginal
	case closed && most < Verified:
		return nil
	case whole != nil:
		h.size = whole.Bytes
		return nil
	case most == Stored:
		return ErrUnknown
	}
	if closed {
		if pixels := s.pixels(ctx, h, from.longest(h)); pixels != nil {
			defer pixels.made.release()
			from = candidates{*pixels}
		}
	}
	made, err := s.makeFrom(ctx, s.limiterFor(ctx), h, from)
	if err != nil {
		return err
	}
	defer made.release()
	h.size = made.size(h)
	return nil
}

// indivisible takes note of a sample that turned out not to be storable in parts
// although its header promised it: from now on the step that wants parts does not
// apply to it, as if it had been packed. It returns false for any other error.
//
// Only a split that failed says so. Where more steps follow, one of them may be
// what failed, and the parts may have been shown already.
func (s *Server) indivisible(h *Handle, err error) bool {
	if h.sample != nil || !errors.Is(err, transcode.ErrUnsupported) || h.plan.Len() > 1 {
		return false
	}
	if _, parts := h.plan.Head(); !parts {
		return false
	}
	info := h.plan.Info()
	info.Scannable = false
	s.mu.Lock()
	defer s.mu.Unlock()
	s.headers.Put(h.file.Path, header{identity: h.file.Identity, info: info}, 0)
	return true
}
