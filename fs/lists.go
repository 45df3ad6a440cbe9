package fs

import (
	"cmp"
	"context"
	iofs "io/fs"
	"iter"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/serve"
	"github.com/pipefs/pipefs/transcode"
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

// dirsAtOnce is how many directories one of several walkers lists before it has to be woken again.
const dirsAtOnce = 16

// eachDir lists a directory and those below it, where they changed, several at once. It calls found for each that has
// samples, one after the other.
func (f *FS) eachDir(d *dir, found func(*dir)) error {
	var (
		below errgroup.Group
		mu    sync.Mutex
		walk  func(d *dir) error
	)
	below.SetLimit(runtime.GOMAXPROCS(0))
	walk = func(d *dir) error {
		s, err := f.refresh(d)
		if isGone(err) && d.id != rootID {
			return nil // it went since its parent was listed
		}
		if err != nil {
			return err
		}
		samples := false
		var dirs []uint32
		for i := range s.ids {
			id := s.at(i)
			if f.tree.entries.at(id).kind == isDir {
				dirs = append(dirs, id)
			} else {
				samples = samples || f.reg.IsSample(f.tree.name(id))
			}
		}
		for some := range slices.Chunk(dirs, dirsAtOnce) {
			next := func() error {
				for _, id := range some {
					if err := walk(f.tree.dir(id)); err != nil {
						return err
					}
				}
				return nil
			}
			if below.TryGo(next) {
				continue
			}
			if err := next(); err != nil {
				return err
			}
		}
		if samples {
			mu.Lock()
			defer mu.Unlock()
			found(d)
		}
		return nil
	}
	return cmp.Or(walk(d), below.Wait())
}

// list returns the paths of all samples of a view, relative to it, in the order
// of listing, one a line. Nothing is read or produced for it.
func (f *FS) list(v *view) ([]byte, error) {
	// Lists of millions are long: the first walk finds out how long, so that no memory is taken twice.
	size := 0
	for name, err := range f.samples(v) {
		if err != nil {
			return nil, err
		}
		size += len(name) + 1
	}
	b := make([]byte, 0, size)
	for name, err := range f.samples(v) {
		if err != nil {
			return nil, err
		}
		b = append(append(b, name...), '\n')
	}
	return b, nil
}

// samples are the paths of a list.
func (f *FS) samples(v *view) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for m, err := range f.walk(v) {
			// A line cannot hold a path with a newline.
			if err == nil && (m.Dir || !f.reg.IsSample(m.Path) || strings.Contains(m.Path, "\n")) {
				continue
			}
			if !yield(m.Listed, err) {
				return
			}
		}
	}
}

// Member is a directory or file of a view. Both paths are relative to its root.
type Member struct {
	Path   string // the own names: where it is in the dataset
	Listed string // as the view lists it
	Dir    bool
}

// Walk yields the directories and files of a view in the order of listing, a
// directory before what is in it; the root is not among them. Nothing is read or
// produced for it, and nothing has to be mounted. An error is about the directory
// that it comes with, and the walk goes on behind it.
func (f *FS) Walk(p transcode.Pipeline) (iter.Seq2[Member, error], error) {
	v, err := f.addView(p, false)
	if err != nil {
		return nil, err
	}
	return f.walk(v), nil
}

func (f *FS) walk(v *view) iter.Seq2[Member, error] {
	return func(yield func(Member, error) bool) {
		f.walkBelow(v, f.tree.dir(rootID), Member{Dir: true}, yield)
	}
}

// walkBelow reports whether the walk goes on.
func (f *FS) walkBelow(v *view, d *dir, at Member, yield func(Member, error) bool) bool {
	s, err := f.listing(d)
	if isGone(err) && d.id != rootID {
		return true // it went since its parent was listed
	}
	if err != nil {
		return yield(at, err)
	}
	n := f.namesOf(v, d, s)
	for i := range s.ids {
		id := s.at(i)
		m := Member{Path: join(at.Path, f.tree.name(id)), Listed: join(at.Listed, n.listedOf(i))}
		m.Dir = f.tree.entries.at(id).kind == isDir
		if !yield(m, nil) || m.Dir && !f.walkBelow(v, f.tree.dir(id), m, yield) {
			return false
		}
	}
	return true
}

// Listed is the path under which a view lists the file of the dataset at path. As with
// Walk nothing is read or produced for it.
func (f *FS) Listed(p transcode.Pipeline, path string) (string, error) {
	v, err := f.addView(p, false)
	if err != nil {
		return "", err
	}
	listed := ""
	for d := f.tree.dir(rootID); d != nil; {
		name, rest, below := strings.Cut(path, "/")
		s, err := f.listing(d)
		if err != nil {
			return "", err
		}
		n := f.namesOf(v, d, s)
		k := f.tree.search(s, name)
		if k == len(s.ids) || n.own(k) != name {
			break
		}
		if listed = join(listed, n.listed(k)); !below {
			return listed, nil
		}
		d, path = f.tree.dir(s.at(s.position(k))), rest
	}
	return "", iofs.ErrNotExist
}

// bulk decides whether listings come with attributes. Reading them costs as much as
// listing, several times over, so a program that only wants names must not pay for
// them. But one that lists a directory and then looks up its files will do the same
// in the next directory: `find -size`, `ls -l`, a loader that asks for each size. A
// reply that holds attributes saves it a request for each file.
type bulk struct {
	until atomic.Int64 // ns since 1970
}

const (
	// bulkLookups is how many files a thread looks up after it listed their
	// directory, before it is taken to want them all.
	bulkLookups = 16
	// bulkTime is how long that is believed. With attributes in the listings there
	// are no lookups to see it from.
	bulkTime = 10 * time.Second
)

// listedBy notes which thread lists a directory.
func (d *dir) listedBy(pid uint32) {
	d.lister.Store(pid)
	d.lookups.Store(0)
}

// lookedUp notes that a thread looked up a file of a directory.
func (b *bulk) lookedUp(d *dir, pid uint32) {
	if d.lister.Load() == pid && d.lookups.Add(1)%bulkLookups == 0 {
		b.until.Store(time.Now().Add(bulkTime).UnixNano())
	}
}

func (b *bulk) wanted() bool { return time.Now().UnixNano() < b.until.Load() }

// fillListed adds attributes to an entry of a listing if they are known for sure, or
// wanted. Where it does not, the node stays 0, and the kernel asks when it has to.
func (f *FS) fillListed(out *fuse.EntryOut, h *dirHandle, e fuse.DirEntry, id uint32, wanted bool) {
	index, _ := splitNode(e.Ino)
	made := index != originalView && e.Mode != unix.S_IFDIR
	if made && (!wanted || h.v.pipeline.Undrawn() || f.effort() == serve.Verified) {
		return // its size may take time, or the name leads elsewhere
	}
	name, attr := f.keeps(h.d, id)
	events := h.d.events.Load()
	a, ok := f.tree.known(id)
	ok = ok && name == forever && attr == forever && h.snap == h.d.snap.Load()
	if !ok && wanted && e.Mode != unix.S_IFDIR {
		var err error
		if a, err = f.look(id, f.tree.path(id)); err == nil && f.tree.fits(id, a) {
			now, _ := f.tree.identify(h.d, id, a, events)
			ok = now == id
		}
	}
	if !ok {
		return
	}
	n, size := e.Ino, a.Size
	if made {
		found, err := f.server.Resolve(context.Background(), n, f.file(id, a), h.v.pipeline, serve.Stored)
		if err != nil {
			return
		}
		if size = found.Size(); found.Unchanged() {
			n = node(originalView, id)
		}
	}
	f.fillEntry(out, n, a, size)
	out.SetEntryTimeout(name)
	out.SetAttrTimeout(attr)
}
