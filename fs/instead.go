package fs

import (
	"fmt"

	"github.com/pipefs/pipefs/internal/serve"
	"github.com/pipefs/pipefs/transcode"
)

// Where a bad sample is replaced, its name leads to the file of another sample of its directory, as
// a second name of that: so the size is right, and what changes in the other sample is noticed as
// under its own name. The kernel keeps no such name: the bad sample may be repaired.

// effort is what resolving a file takes: where bad samples are replaced, it must be known when a
// name is looked up whether the sample can be made.
func (f *FS) effort() serve.Effort {
	if f.server.OnError() == serve.Replace {
		return serve.Verified
	}
	return serve.Sized
}

// instead makes the name of a sample that cannot be made lead to another one.
func (l *lookup) instead(v *view, id uint32, cause error) error {
	f := l.f
	path := f.tree.path(id)
	if err := f.server.Excuse(path, cause); err != nil {
		return err
	}
	if err := f.server.Replaceable(path); err != nil {
		return fmt.Errorf("%w; no other sample takes its place: %w", cause, err)
	}
	s, err := f.listing(l.d)
	if err != nil {
		return err
	}
	var others []uint32
	for k := range s.ids {
		if other := s.at(s.position(k)); f.tree.entries.at(other).kind != isDir && f.reg.IsSample(f.tree.name(other)) {
			others = append(others, other)
		}
	}
	d, ok := v.pipeline.DrawOf(path)
	if !ok {
		d = transcode.Draw{Path: path}
	}
	of := *l
	of.v, of.replaces = v, true
	for k := range serve.Instead(d, len(others)) {
		if others[k] == id {
			continue
		}
		err := of.enter(others[k])
		if err == nil {
			l.out.SetEntryTimeout(0)
			return nil
		}
		if !serve.IsBad(err) {
			return err
		}
		if err := f.server.Excuse(f.tree.path(others[k]), err); err != nil {
			return err
		}
	}
	return fmt.Errorf("%w; none of the samples that were tried in its place can be made either", cause)
}

// replaceable reports whether an error of looking a sample up makes another one take its place.
func (l *lookup) replaceable(err error) bool {
	return err != nil && !l.replaces && l.f.server.OnError() == serve.Replace && serve.IsBad(err)
}
