package fs

import (
	"strings"
	"sync"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// walker walks the whole tree for file lists, once at a time.
type walker struct {
	mu    sync.Mutex
	fresh time.Time // when all directories were last looked at
}

// walkInterval is how long the tree is taken to be unchanged after a walk.
const walkInterval = time.Second

// lookupList is LOOKUP of the list of a view's samples.
func (f *FS) lookupList(v *view, name string, out *fuse.EntryOut) fuse.Status {
	version, err := f.freshen()
	if err != nil {
		return f.fail(v, "lookup", pipefsName+"/"+name, noOffset, err)
	}
	r := f.root
	r.mu.Lock()
	s := r.newest[name]
	same := s != nil && s.version == version
	if same {
		r.fill(out, s, 0)
	}
	r.mu.Unlock()
	if same {
		return fuse.OK
	}
	return f.lookupFile(name, version, func() ([]byte, error) { return f.list(v) }, out)
}

// freshen lists all directories that changed, and returns the version of the
// tree.
func (f *FS) freshen() (uint64, error) {
	w := &f.root.walker
	w.mu.Lock()
	defer w.mu.Unlock()
	if time.Since(w.fresh) > walkInterval {
		if err := f.eachDir(f.tree.dir(rootID), func(*dir) {}); err != nil {
			return 0, err
		}
		w.fresh = time.Now()
	}
	return f.tree.version.Load(), nil
}

// eachDir lists a directory and those below it, where they changed, and calls found for each that has
// samples.
func (f *FS) eachDir(d *dir, found func(*dir)) error {
	s, err := f.refresh(d)
	if isGone(err) && d.id != rootID {
		return nil // it went since its parent was listed
	}
	if err != nil {
		return err
	}
	samples := false
	for i := range s.ids {
		id := s.at(i)
		if f.tree.entries.at(id).kind != isDir {
			samples = samples || f.reg.IsSample(f.tree.name(id))
		} else if err := f.eachDir(f.tree.dir(id), found); err != nil {
			return err
		}
	}
	if samples {
		found(d)
	}
	return nil
}

// list returns the paths of all samples of a view, relative to it, in the order
// of listing, one a line. Nothing is read or produced for it.
func (f *FS) list(v *view) ([]byte, error) {
	var b strings.Builder
	for m, err := range f.walk(v) {
		if err != nil {
			return nil, err
		}
		// A line cannot hold a path with a newline.
		if m.Dir || !f.reg.IsSample(m.Path) || strings.Contains(m.Path, "\n") {
			continue
		}
		b.WriteString(m.Listed)
		b.WriteByte('\n')
	}
	return []byte(b.String()), nil
}
