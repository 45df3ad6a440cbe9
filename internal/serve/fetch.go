package serve

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/pipefs/pipefs/mixer"
	"github.com/pipefs/pipefs/transcode"
)

// Fetched is what a view's file is made from, in memory: loading has been done and
// decoding has not, so that the two can be measured one by one.
type Fetched struct {
	// Bytes is how many were read.
	Bytes int64
	// Raw: they are the file itself.
	Raw bool

	p    *Server
	from origin
	data []byte
}

// Fetch reads what the policy chooses to make a view of a file from. A file that
// the view does not change is read as it is.
func (p *Server) Fetch(f File, v transcode.Pipeline, key Key, policy mixer.Policy) (Fetched, error) {
	j, err := p.job(f, v)
	if err != nil {
		return Fetched{}, err
	}
	var r ReaderAt
	var size int64
	got := Fetched{p: p}
	if j.plan.Unchanged() {
		c, err := p.openOriginal(context.Background(), f)
		if err != nil {
			return Fetched{}, err
		}
		r, size, got.Raw = c.reader, c.size, true
	} else {
		request := j.request
		request.Key = key
		chosen := policy.Choose(request)
		got.from = j.origins[chosen]
		got.Raw = request.Candidates[chosen].Steps == request.Steps
		whole, err := got.from.open()
		if err != nil {
			return Fetched{}, err
		}
		r, size = whole, whole.Size()
	}
	defer r.Close()
	if err := p.o.Registry.Limits().CheckFile(size); err != nil {
		return Fetched{}, fmt.Errorf("%s: %w", f.Path, err)
	}
	got.data = make([]byte, size)
	if n, err := r.ReadAt(got.data, 0); int64(n) < size {
		if err == nil {
			err = io.ErrUnexpectedEOF
		}
		return Fetched{}, fmt.Errorf("%s: %w", f.Path, err)
	}
	got.Bytes = size
	return got, nil
}

// Finish computes what remains and throws it away.
func (g Fetched) Finish(ctx context.Context) error {
	if g.Raw {
		return nil
	}
	if head, ok := g.from.plan.Head(); ok && g.from.plan.Len() == 1 {
		_, err := head.Kind.Split(ctx, g.data, g.p.o.Registry.Limits(), false)
		return err
	}
	var buffer []byte
	_, err := g.from.plan.RunAfter(ctx, g.from.steps, g.data, func(n int64) []byte {
		buffer = g.p.results.get(n)
		return buffer
	})
	if buffer != nil {
		g.p.results.put(buffer)
	}
	return err
}

// StoredBothWays reports whether a view of a file is stored in full and can also be
// made from something shorter, so that there is something to mix. A sample that is
// damaged is not.
func (p *Server) StoredBothWays(f File, v transcode.Pipeline) (bool, error) {
	j, err := p.job(f, v)
	switch {
	case errors.Is(err, errFault), isFault(err):
		return false, nil
	case err != nil || j.plan.Unchanged():
		return false, err
	}
	_, whole := j.storedSize()
	return whole && len(j.request.Candidates) > 1, nil
}
