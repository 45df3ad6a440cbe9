package serve

import (
	"errors"

	"github.com/pipefs/pipefs/internal/source"
	"github.com/pipefs/pipefs/store"
	"github.com/pipefs/pipefs/transcode"
)

// settledPolicy is a policy that decides on a file once and for all.
type settledPolicy interface {
	// Takes reports whether it takes what is stored in full of the file of that key.
	Takes(key uint64) bool
}

// showsStored reports whether a view of what is stored shows the file of that path as its
// steps make it, and not as it is. It reads no file, and for a key it never changes in a
// mount: the kernel caches what a name leads to. What a mount prepares for itself does not
// count, and what proves to be damaged goes on counting; the same bytes are made then.
func (p *Server) showsStored(key Key, path string, v transcode.Pipeline) (bool, error) {
	if s, ok := p.o.Policy.(settledPolicy); ok && !s.Takes(key) || p.o.Store == nil {
		return false, nil
	}
	stored, err := p.o.Store.Lookup(path)
	if err != nil || stored.Fault != "" {
		if errors.Is(err, store.ErrNotFound) {
			err = nil
		}
		return false, err
	}
	if !p.Unchanging() {
		if a, err := p.Stat(path); err != nil || a.Identity != source.Identity(stored.Source) {
			return false, err
		}
	}
	plan := p.Plan(v, stored.Info, p.o.Roles.Of(path), &stored)
	return !plan.Unchanged() && p.o.Store.Holds(&stored, plan.Key()), nil
}
