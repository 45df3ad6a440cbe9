package serve

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"sync"

	"github.com/pipefs/pipefs/internal/source"
	"github.com/pipefs/pipefs/store"
	"github.com/pipefs/pipefs/transcode"
)

// header is what the header of a sample told, and of which version of the file.
type header struct {
	identity source.Identity
	info     transcode.Info
	fault    error
	unread   error // why every view shows it unchanged
}

// errFault marks a sample that no codec could read when it was packed.
var errFault = errors.New("found broken when it was packed")

// header returns what the header of a sample tells, from what is nearest: the store,
// memory, the overlay, the file.
func (s *Server) header(h *Handle) (transcode.Info, error) {
	if h.sample != nil {
		switch fault := h.sample.Fault; {
		case Unread(fault):
			return transcode.Info{}, nil
		case fault != "":
			return transcode.Info{}, fmt.Errorf("%w: %s", errFault, fault)
		}
		return h.sample.Info, nil
	}
	s.mu.Lock()
	known, ok := s.headers.Get(h.file.Path)
	s.mu.Unlock()
	if ok && known.identity == h.file.Identity {
		return known.info, known.fault
	}
	known = header{identity: h.file.Identity}
	if known.info, ok = s.keptHeader(h); !ok {
		if err := s.probe(h, &known); err != nil {
			return transcode.Info{}, err
		}
		if known.fault != nil && !isFault(known.fault) {
			return transcode.Info{}, known.fault
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.headers.Put(h.file.Path, known, 0)
	if known.fault == nil {
		s.typical[extension(h.file.Path)] = known.info
	}
	return known.info, known.fault
}

// extension is that of a path, in lower case.
func extension(name string) string { return strings.ToLower(path.Ext(name)) }

// probe reads the header from the dataset. An error is one of reading. The file stays
// open, for a reader of the rest.
func (s *Server) probe(h *Handle, known *header) error {
	file, err := s.o.Dataset.OpenAs(h.file.Path, h.file.Identity)
	if err != nil {
		return changedIfGone(h.file, err)
	}
	// The kernel's read-ahead stays on. Most readers go on to the rest of the file, and a
	// second request would cost more.
	known.info, known.fault = s.o.Registry.Probe(file, h.file.Identity.Size)
	if err := file.Verify(); err != nil {
		file.Close()
		return err
	}
	s.probed.add(h, file)
	if errors.Is(known.fault, transcode.ErrUnsupported) {
		// A variant that no codec knows, or over a limit: no step applies.
		if s.o.OnError != Replace {
			s.log.Info("the sample appears unchanged in every view", "sample", h.file.Path, "cause", known.fault)
		}
		known.info, known.fault, known.unread = transcode.Info{}, nil, known.fault
	}
	return nil
}

// keptHeader returns what the overlay knows of a sample of which it keeps this view.
// The source is not touched then: it is elsewhere on the disk, and what is kept is
// often shorter than what would be read of the source to find its header.
//
// What the view is kept under depends on the header in turn. Samples of one kind
// mostly have the same, so the name is guessed from the last one with the extension;
// what the record itself says then counts.
func (s *Server) keptHeader(h *Handle) (info transcode.Info, ok bool) {
	if s.o.Overlay == nil {
		return info, false
	}
	s.mu.Lock()
	typical, ok := s.typical[extension(h.file.Path)]
	s.mu.Unlock()
	if !ok {
		return info, false
	}
	limits := s.o.Registry.Limits()
	plan := s.o.Registry.Plan(h.view, typical, s.o.Roles.Of(h.file.Path))
	for _, p := range wholeOrSplit(nil, &plan, plan.Key()) {
		info, ok := s.o.Overlay.Info(h.file.Path, storedAs(h.file.Identity), p.key)
		// A picture may be over the limits of today.
		if ok && limits.CheckSize(info.Width, info.Height) == nil && limits.CheckFile(h.file.Identity.Size) == nil {
			return info, true
		}
	}
	return transcode.Info{}, false
}

// Unread reports whether a fault that a store holds says that the sample was no picture
// of a known kind, or over a limit: it is shown unchanged, as one of a dataset is.
func Unread(fault string) bool {
	return strings.HasPrefix(fault, transcode.ErrUnsupported.Error()+": ")
}

// isFault reports whether an error is about the sample's bytes, and so will be
// the same the next time.
func isFault(err error) bool {
	return errors.Is(err, transcode.ErrBad) || errors.Is(err, transcode.ErrTruncated) || errors.Is(err, transcode.ErrUnsupported)
}

// probed are the files that were opened last to read their headers. They stay open for
// the readers who come for the rest: most do so at once, and opening a file costs a
// network file system a request.
type probed struct {
	mu   sync.Mutex
	last [probedFiles]*Handle // a ring
	next int
}

// probedFiles is how many stay open. Each takes a descriptor.
const probedFiles = 32

// add keeps the file of a handle open, and closes the oldest one.
func (p *probed) add(h *Handle, f *source.File) {
	h.probed.Store(f)
	p.mu.Lock()
	oldest := p.last[p.next]
	p.last[p.next] = h
	p.next = (p.next + 1) % probedFiles
	p.mu.Unlock()
	oldest.closeProbed()
}

// clear closes all of them.
func (p *probed) clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, h := range p.last {
		h.closeProbed()
	}
	p.last = [probedFiles]*Handle{}
}

func (h *Handle) closeProbed() {
	if h == nil {
		return
	}
	if f := h.probed.Swap(nil); f != nil {
		f.Close()
	}
}

// Fetch lets the system begin to read what a file of a view will be made of, for who will ask for many
// soon, and names them in the order in which they lie on the disk. It is only advice: what is wrong with
// the file is told by who makes it.
func (s *Server) Fetch(ctx context.Context, key Key, f File, v transcode.Pipeline) {
	if sample, err := s.stored(f); err != nil || sample == nil {
		file, err := s.openDataset(f)
		if err != nil {
			return
		}
		defer file.Close()
		file.Fetch(0, file.Identity.Size)
		return
	}
	h, err := s.resolve(ctx, key, f, v, Planned)
	if err != nil {
		return
	}
	from := s.candidates(h)
	if len(from) == 0 {
		return
	}
	r, err := s.openCandidate(h, from.longest(h))
	if err != nil {
		return
	}
	defer r.Close()
	switch r := r.(type) {
	case *store.Reader:
		r.Fetch()
	case ownFile:
		r.Fetch(0, r.Identity.Size)
	}
}
