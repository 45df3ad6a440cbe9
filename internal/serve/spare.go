package serve

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"sync"

	"github.com/pipefs/pipefs/mixer"
	"github.com/pipefs/pipefs/store"
)

// A copy is a representation that can be made again: of an overlay, or of a
// fraction. When it turns out damaged, or is taken away while it is in use, what it
// stands for is made from the others, and no reader notices.

// lost reports whether an error means that a copy is of no use.
func lost(err error) bool {
	return errors.Is(err, store.ErrCorrupt) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, store.ErrNotFound)
}

// withoutCopies is the job with what cannot be made again; ok is false where that
// is no less.
func (j *job) withoutCopies() (_ *job, ok bool) {
	if !slices.ContainsFunc(j.origins, func(o origin) bool { return o.copy }) {
		return nil, false
	}
	rest := *j
	rest.origins, rest.request.Candidates = nil, nil
	for i, o := range j.origins {
		if !o.copy {
			rest.origins = append(rest.origins, o)
			rest.request.Candidates = append(rest.request.Candidates, j.request.Candidates[i])
		}
	}
	return &rest, len(rest.origins) > 0
}

// spared reports a lost copy, and returns the job without copies.
func (p *Server) spared(j *job, err error) (*job, bool) {
	if !lost(err) {
		return nil, false
	}
	rest, ok := j.withoutCopies()
	if ok {
		for _, o := range j.origins {
			if o.copy {
				o.forget()
			}
		}
		p.stats.spared.Add(1)
		p.log.Warn("a stored copy cannot be read; its bytes are made again. pipefs check tells what is damaged", "sample", j.file.Path, "view", j.view, "cause", err)
	}
	return rest, ok
}

// spareReader reads a copy that is the whole result, and something else when the
// copy fails.
type spareReader struct {
	sized
	p   *Server
	job *job
	key Key

	mu      sync.Mutex
	instead *Content
}

// ReadAt implements [io.ReaderAt].
func (r *spareReader) ReadAt(b []byte, off int64) (int, error) {
	n, err := r.sized.ReadAt(b, off)
	if err == nil || !lost(err) {
		return n, err
	}
	instead, err := r.replace(err)
	if err != nil {
		return 0, err
	}
	return instead.ReadAt(b, off)
}

// replace makes the result in another way, once.
func (r *spareReader) replace(cause error) (*Content, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.instead == nil {
		rest, ok := r.p.spared(r.job, cause)
		if !ok {
			return nil, cause
		}
		// Not the context of one reader: the others get the same.
		c, err := r.p.openFrom(context.Background(), r.key, rest)
		if err != nil {
			return nil, errors.Join(err, cause)
		}
		c.refs.Store(1)
		r.instead = c
	}
	return r.instead, nil
}

// Close implements [io.Closer].
func (r *spareReader) Close() error {
	if r.instead != nil {
		r.instead.Release()
	}
	return r.sized.Close()
}

// openFrom opens a job's content from the representation that the policy chooses.
func (p *Server) openFrom(ctx context.Context, key Key, j *job) (*Content, error) {
	chosen := p.choose(key, j)
	var c *Content
	var err error
	if j.request.Candidates[chosen].Steps == j.plan.Len() {
		c, err = p.openWhole(key, j, chosen)
	} else {
		c, err = p.openProduct(ctx, j, chosen)
	}
	if rest, ok := p.spared(j, err); ok {
		return p.openFrom(ctx, key, rest)
	}
	return c, err
}

// choose asks the policy, and counts its answers where there was a choice.
func (p *Server) choose(key Key, j *job) int {
	request := j.request
	request.Key = key
	chosen := p.o.Policy.Choose(request)
	if len(request.Candidates) > 1 {
		if request.Candidates[chosen].Steps == request.Steps {
			p.stats.raw.Add(1)
		} else {
			p.stats.encoded.Add(1)
		}
	}
	return chosen
}

func (p *Server) openWhole(key Key, j *job, chosen int) (*Content, error) {
	from := j.origins[chosen]
	r, err := from.open()
	if err != nil {
		return nil, err
	}
	size := r.Size()
	r = p.meter.metered(r)
	if from.copy {
		r = &spareReader{sized: r, p: p, job: j, key: key}
	}
	return &Content{size: size, reader: r}, nil
}

func (p *Server) openProduct(ctx context.Context, j *job, chosen int) (*Content, error) {
	made, err := p.produce(ctx, p.readers, j, chosen)
	if err != nil {
		return nil, err
	}
	return made.content(j)
}

// longest is what the policy is not asked for: work ahead of time.
func longest(j *job) int { return mixer.Longest{}.Choose(j.request) }
