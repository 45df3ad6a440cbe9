package serve

import (
	"context"
	"fmt"
	"io"

	"github.com/pipefs/pipefs/mixer"
)

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
	if buffer != nil {
		s.outputs.put(buffer)
	}
	return err
}
