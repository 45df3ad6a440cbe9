package serve

import (
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/pipefs/pipefs/internal/source"
	"github.com/pipefs/pipefs/mixer"
	"github.com/pipefs/pipefs/store"
	"github.com/pipefs/pipefs/transcode"
)

// prefix is a prefix of a plan whose result may be stored, and what remains after it.
type prefix struct {
	key   string // of the representation; empty for the dataset's own file
	level int    // of the representation
	steps int    // of the plan, that the representation stands for
	// What is computed from the representation: plan, after its first steps.
	plan  *transcode.Plan
	after int
	// original: it stands for no step. One such is enough.
	original bool
}

// prefixes is the table of what a read of a handle may start from, in the order in which
// it is looked for.
func (s *Server) prefixes(h *Handle) []prefix {
	p := &h.plan
	rows := wholeOrSplit(make([]prefix, 0, 8), p, h.result)
	for _, k := range s.kinds {
		// It stands for the first step, decoding, but has to be decoded itself.
		if key, ok := s.o.Registry.SubstituteKey(k, p.Info()); ok {
			if rest, ok := p.From(k); ok {
				rows = append(rows, prefix{key: key, steps: 1, plan: &rest})
			}
		}
	}
	if len(s.holders) > 0 || h.sample != nil {
		for _, raw := range p.PixelPrefixes() {
			rows = append(rows, prefix{key: raw.Key, steps: raw.Steps, plan: &raw.Rest})
		}
	}
	rows = append(rows,
		prefix{key: transcode.Original, plan: p, original: true},
		prefix{plan: p, original: true})
	// All parts together hold the same coefficients and metadata as the original,
	// so every step makes the same of them; they only cost more to decode.
	for _, k := range s.kinds {
		if k.Split != nil {
			rows = append(rows, prefix{key: transcode.SplitKey(k), plan: p, original: true})
		}
	}
	return rows
}

// wholeOrSplit adds the prefixes that begin with the first step: the whole plan, whose
// result has that key and is never stored where it was drawn, and the parts of the sample if the first step only chooses among
// them.
func wholeOrSplit(rows []prefix, p *transcode.Plan, result string) []prefix {
	head, split := p.Head()
	if split {
		rows = append(rows, prefix{key: transcode.SplitKey(head.Kind), level: head.Arg, steps: 1, plan: p, after: 1})
	}
	if (!split || p.Len() > 1) && !p.Random() {
		rows = append(rows, prefix{key: result, steps: p.Len(), plan: p, after: p.Len()})
	}
	return rows
}

// candidate is a representation that exists and that a read may start from.
type candidate struct {
	mixer.Candidate
	prefix
	// in holds a copy, which can be made again from another candidate; nil: what the
	// representation is in cannot be replaced.
	in holder
	// stored is the representation; nil: it is the dataset's own file, or a copy that is
	// not looked at before it is opened.
	stored *store.Representation
	// made is where the representation is, if that is in memory.
	made *result
}

// holder is a part of the store, or beside it, that holds copies.
type holder interface {
	Has(path string, src store.Identity, key string) bool
	Get(path string, src store.Identity, key string) (store.Representation, error)
	Reader(rep store.Representation, level int) (*store.Reader, error)
	Forget(path string, src store.Identity, key string)
}

// candidates are those of one handle. There is no choice among originals.
type candidates []candidate

// candidates returns what a read of a handle may start from at this moment.
func (s *Server) candidates(h *Handle) candidates {
	if h.final != nil {
		return h.final
	}
	found := make(candidates, 0, 4)
	original := false
	for _, row := range s.prefixes(h) {
		if row.original && original {
			break
		}
		if c, ok := s.find(h, row); ok {
			found = append(found, c)
			original = row.original
		}
	}
	if !original && s.o.Dataset != nil {
		// It changed since it was packed or looked up. Opening it fails and says so.
		found = append(found, s.inDataset(h, prefix{plan: &h.plan, original: true}))
	}
	return found
}

// find looks for one representation: in the store, its fractions, the overlay, the
// dataset.
func (s *Server) find(h *Handle, row prefix) (candidate, bool) {
	if row.key == "" {
		return s.inDataset(h, row), s.o.Dataset != nil && (h.sample == nil || s.isThere(h.file))
	}
	if h.sample != nil {
		if rep := h.sample.Representation(row.key); rep != nil && rep.Size(row.level) >= 0 {
			return candidate{Candidate: mixer.Candidate{Steps: row.steps, Bytes: rep.Size(row.level)}, prefix: row, stored: rep}, true
		}
	}
	if row.original {
		return candidate{}, false
	}
	for _, in := range s.holders {
		if c, ok := s.copyIn(in, h, row); ok {
			return c, true
		}
	}
	return candidate{}, false
}

// inDataset is the dataset's own file.
func (s *Server) inDataset(h *Handle, row prefix) candidate {
	return candidate{Candidate: mixer.Candidate{Bytes: h.file.Identity.Size, Dataset: true}, prefix: row}
}

// isThere reports whether the dataset still has this version of the file.
func (s *Server) isThere(f File) bool {
	a, err := s.o.Dataset.Stat(f.Path)
	return err == nil && a.Identity == f.Identity
}

// copyIn finds a copy. Where its size is known it is not touched before it is
// opened: the policy may choose another one.
func (s *Server) copyIn(in holder, h *Handle, row prefix) (candidate, bool) {
	id := storedAs(h.file.Identity)
	if !in.Has(h.file.Path, id, row.key) {
		return candidate{}, false
	}
	c := candidate{Candidate: mixer.Candidate{Steps: row.steps}, prefix: row, in: in}
	if row.steps == h.plan.Len() {
		c.Bytes, _ = h.plan.Size()
	}
	if c.Bytes > 0 {
		return c, true
	}
	rep, err := in.Get(h.file.Path, id, row.key)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return candidate{}, false
	case err != nil:
		s.log.Warn("a kept copy cannot be read, making it again", "sample", h.file.Path, "key", row.key, "cause", err)
		in.Forget(h.file.Path, id, row.key)
		return candidate{}, false
	}
	c.stored, c.Bytes = &rep, rep.Size(row.level)
	return c, c.Bytes >= 0
}

// whole is the candidate that is the file of the view; nil where there is none.
func (from candidates) whole(h *Handle) *candidate {
	for i := range from {
		if from[i].Steps == h.plan.Len() {
			return &from[i]
		}
	}
	return nil
}

// request is what a policy is asked.
func (from candidates) request(h *Handle) mixer.Request {
	r := mixer.Request{Key: h.key, Steps: h.plan.Len(), Candidates: make([]mixer.Candidate, len(from))}
	for i, c := range from {
		r.Candidates[i] = c.Candidate
	}
	return r
}

// longest is the candidate for work ahead of time, for which no policy is asked.
func (from candidates) longest(h *Handle) *candidate {
	return &from[mixer.Longest{}.Choose(from.request(h))]
}

// sized is open bytes.
type sized interface {
	io.ReaderAt
	io.Closer
	Size() int64
}

// openCandidate opens the bytes of a representation.
func (s *Server) openCandidate(h *Handle, c *candidate) (sized, error) {
	switch {
	case c.Dataset:
		return s.openOwn(h)
	case c.in == nil:
		return s.openStored(h.file, c.stored, c.level)
	case c.stored != nil:
		return c.in.Reader(*c.stored, c.level)
	}
	rep, err := c.in.Get(h.file.Path, storedAs(h.file.Identity), c.key)
	if err != nil {
		return nil, err
	}
	return c.in.Reader(rep, c.level)
}

// errNoOriginal: the store cannot give the original back and there is no
// dataset.
var errNoOriginal = errors.New("the original was dropped when it was packed (or packed by another version), and there is no dataset: name it with --dataset DIR, or pack again with --originals rebuild")

// openDataset opens a file of the dataset if it still is the one that was looked
// up.
func (s *Server) openDataset(f File) (*source.File, error) {
	if s.o.Dataset == nil {
		return nil, errNoOriginal
	}
	return openIn(s.o.Dataset, f)
}

func openIn(d source.Dataset, f File) (*source.File, error) {
	file, err := d.Open(f.Path)
	if err != nil {
		return nil, changedIfGone(f, err)
	}
	if file.Identity != f.Identity {
		file.Close()
		return nil, fmt.Errorf("%s: %w", f.Path, source.ErrChanged)
	}
	return file, nil
}

// changedIfGone is ErrChanged for a file that is not there: it was when it was looked up.
func changedIfGone(f File, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: %w", f.Path, source.ErrChanged)
	}
	return err
}

// openOwn opens the dataset's own file of a handle, which may be open still since its
// header was read.
func (s *Server) openOwn(h *Handle) (sized, error) {
	if file := h.probed.Swap(nil); file != nil {
		return ownFile{file}, nil
	}
	file, err := s.openDataset(h.file)
	if err != nil {
		return nil, err
	}
	return ownFile{file}, nil
}

// ownFile reads the dataset's own file, and after each read makes sure
// that it still is the same file.
type ownFile struct{ *source.File }

func (f ownFile) Size() int64 { return f.Identity.Size }

func (f ownFile) ReadAt(b []byte, off int64) (int, error) {
	n, err := f.File.ReadAt(b, off)
	if changed := f.Verify(); changed != nil {
		return 0, changed
	}
	return n, err
}
