package serve

import (
	"context"

	"github.com/pipefs/pipefs/store"
	"github.com/pipefs/pipefs/transcode"
)

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
