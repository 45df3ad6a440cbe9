package serve

import (
	"errors"
	"hash/maphash"
	"io"
	"sync/atomic"

	"github.com/pipefs/pipefs/internal/source"
	"github.com/pipefs/pipefs/mixer"
	"github.com/pipefs/pipefs/store"
	"github.com/pipefs/pipefs/transcode"
)

// job is a file in a view: the plan, and all that it can be made from.
type job struct {
	file    File
	view    string
	plan    transcode.Plan
	request mixer.Request
	origins []origin    // parallel to request.Candidates
	rebuild *rebuilding // set where the job gives the original back
	packed  bool        // what is known of the sample comes from the store
	// settled: the packed store holds the very result, and it never changes.
	settled bool
}

// settledJobs remembers jobs that will never come out otherwise: the size of a
// file is asked for right before its bytes.
type settledJobs struct {
	seed  maphash.Seed
	slots [256]atomic.Pointer[job]
}

func (s *settledJobs) slot(f File) *atomic.Pointer[job] {
	return &s.slots[maphash.String(s.seed, f.Path)%uint64(len(s.slots))]
}

func (s *settledJobs) get(f File, v transcode.Pipeline) *job {
	if j := s.slot(f).Load(); j != nil && j.file == f && j.view == v.String() {
		return j
	}
	return nil
}

func (s *settledJobs) put(j *job) { s.slot(j.file).Store(j) }

// origin is a representation that a job can start from.
type origin struct {
	open func() (sized, error)
	// What remains to be done: plan, without its first steps.
	plan  transcode.Plan
	steps int
	// copy: it can be made again from the others, once it is forgotten.
	copy   bool
	forget func()
}

// work is about how many bytes of memory the job takes to run, its source not
// counted.
func (j *job) work() int64 {
	if j.rebuild != nil {
		return j.rebuild.work
	}
	return j.plan.Work()
}

// sized is open bytes.
type sized interface {
	io.ReaderAt
	io.Closer
	Size() int64
}

// errFault marks a sample that no codec could read when it was packed.
var errFault = errors.New("found broken when it was packed")

// job plans a view of a sample and finds what it can start from.
func (p *Server) job(f File, v transcode.Pipeline) (*job, error) {
	if j := p.settled.get(f, v); j != nil {
		return j, nil
	}
	stored, err := p.stored(f)
	if err != nil {
		return nil, err
	}
	info, err := p.info(f, v, stored)
	if err != nil {
		return nil, err
	}
	role := p.o.Roles.Of(f.Path)
	j := &job{file: f, view: v.String(), packed: stored != nil, plan: p.Plan(v, info, role, stored)}
	if j.plan.Unchanged() {
		return j, nil
	}
	if err := p.guard(f, v, j.plan, role); err != nil {
		return nil, err
	}
	j.request.Steps = j.plan.Len()
	p.findOrigins(j, stored)
	if len(j.origins) == 0 {
		return nil, errNoOriginal
	}
	if j.settled {
		p.settled.put(j)
	}
	return j, nil
}

// stored returns what the store holds of this very version of the file, or nil.
func (p *Server) stored(f File) (*store.Sample, error) {
	if p.o.Store == nil {
		return nil, nil
	}
	s, err := p.o.Store.Lookup(f.Path)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, err
	case source.Identity(s.Source) != f.Identity:
		return nil, nil
	}
	return &s, nil
}

// indivisible takes note of a sample that turned out not to be storable in parts
// although its header promised it: from now on the step that wants parts does not
// apply to it, as if it had been packed. It returns false for any other error.
//
// Only a split that failed says so. Where more steps follow, one of them may be
// what failed, and the parts may have been shown already.
func (p *Server) indivisible(j *job, err error) bool {
	_, parts := j.plan.Head()
	if j.packed || !parts || j.plan.Len() > 1 || !errors.Is(err, transcode.ErrUnsupported) {
		return false
	}
	info := j.plan.Info()
	info.Scannable = false
	p.mu.Lock()
	defer p.mu.Unlock()
	p.infos.put(j.file.Path, knownInfo{identity: j.file.Identity, info: info}, 0)
	return true
}

// findOrigins lists the representations that exist for prefixes of the plan.
func (p *Server) findOrigins(j *job, stored *store.Sample) {
	add := func(bytes int64, dataset bool, o origin) {
		o.plan = j.plan
		j.request.Candidates = append(j.request.Candidates, mixer.Candidate{Steps: o.steps, Bytes: bytes, Dataset: dataset})
		j.origins = append(j.origins, o)
	}
	addStored := func(key string, steps, level int) bool {
		size := int64(-1)
		if steps == j.plan.Len() {
			size, _ = j.plan.Size()
		}
		found := p.representation(j.file, stored, key, level, size)
		if found == nil {
			return false
		}
		add(found.size, false, origin{steps: steps, copy: found.copy, forget: found.forget, open: found.open})
		j.settled = j.settled || steps == j.plan.Len() && !found.copy
		return true
	}
	head, scans := j.plan.Head()
	if scans {
		addStored(transcode.SplitKey(head.Kind), 1, head.Arg)
	}
	if !scans || j.plan.Len() > 1 {
		addStored(j.plan.Key(), j.plan.Len(), 0)
	}
	for _, k := range p.o.Registry.Kinds() {
		if key, ok := p.o.Registry.SubstituteKey(k, j.plan.Info()); ok {
			// It stands for the first step, decoding, but has to be decoded itself.
			if rest, ok := j.plan.From(k); ok && addStored(key, 1, 0) {
				o := &j.origins[len(j.origins)-1]
				o.plan, o.steps = rest, 0
			}
		}
	}
	if addStored(transcode.Original, 0, 0) {
		return
	}
	// All parts together hold the same coefficients and metadata as the original,
	// so every step makes the same of them; they only cost more to decode.
	complete := func() bool {
		for _, k := range p.o.Registry.Kinds() {
			if k.Split != nil && addStored(transcode.SplitKey(k), 0, 0) {
				return true
			}
		}
		return false
	}
	if stored != nil && !p.inDataset(j.file) && complete() {
		return
	}
	if p.o.Dataset != nil {
		add(j.file.Identity.Size, true, origin{open: func() (sized, error) {
			file, err := p.openDataset(j.file)
			if err != nil {
				return nil, err
			}
			return datasetContent{file}, nil
		}})
	}
}

// inDataset reports whether the dataset still has this version of the file.
func (p *Server) inDataset(f File) bool {
	file, err := p.openDataset(f)
	if err != nil {
		return false
	}
	file.Close()
	return true
}

// found is a stored representation at one of its levels.
type found struct {
	size int64
	open func() (sized, error)
	// copy: it can be made again, and forget makes that happen.
	copy   bool
	forget func()
}

// copies is a part of the store, or beside it, that holds what can be made again.
type copies interface {
	Has(path string, src store.Identity, key string) bool
	Get(path string, src store.Identity, key string) (store.Representation, error)
	Reader(rep store.Representation, level int) (*store.Reader, error)
	Forget(path string, src store.Identity, key string)
}

// representation finds a stored representation of this version of the file, in the
// store, its fractions or the overlay; nil where there is none, or none with that
// level. size is its size if the caller knows it, and not positive otherwise.
func (p *Server) representation(f File, stored *store.Sample, key string, level int, size int64) *found {
	if stored != nil {
		if rep := stored.Representation(key); rep != nil && rep.Size(level) >= 0 {
			return &found{size: rep.Size(level), open: func() (sized, error) { return p.o.Store.Reader(*rep, level) }}
		}
	}
	if key == transcode.Original {
		return nil
	}
	for _, c := range p.copies {
		if found := p.copyIn(c, f, key, level, size); found != nil {
			return found
		}
	}
	return nil
}

// copyIn finds a copy. Where its size is known it is not touched before it is
// opened: the policy may choose another one.
func (p *Server) copyIn(c copies, f File, key string, level int, size int64) *found {
	id := store.Identity(f.Identity)
	if !c.Has(f.Path, id, key) {
		return nil
	}
	copied := &found{size: size, copy: true, forget: func() { c.Forget(f.Path, id, key) }}
	if size > 0 {
		copied.open = func() (sized, error) {
			rep, err := c.Get(f.Path, id, key)
			if err != nil {
				return nil, err
			}
			return c.Reader(rep, level)
		}
		return copied
	}
	rep, err := c.Get(f.Path, id, key)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil
	case err != nil:
		p.log.Warn("a kept copy cannot be read, making it again", "sample", f.Path, "key", key, "cause", err)
		return nil
	case rep.Size(level) < 0:
		return nil
	}
	copied.size = rep.Size(level)
	copied.open = func() (sized, error) { return c.Reader(rep, level) }
	return copied
}

// storedOriginal opens the original from the store; nil where it is not kept.
func (p *Server) storedOriginal(f File) (sized, error) {
	stored, err := p.stored(f)
	if err != nil || stored == nil {
		return nil, err
	}
	found := p.representation(f, stored, transcode.Original, 0, -1)
	if found == nil {
		return nil, nil
	}
	return found.open()
}

// storedSize is the size of the view's file if some representation is it.
func (j *job) storedSize() (int64, bool) {
	for _, c := range j.request.Candidates {
		if c.Steps == j.plan.Len() {
			return c.Bytes, true
		}
	}
	return 0, false
}
