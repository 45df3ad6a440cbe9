package fs

import (
	"errors"
	iofs "io/fs"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/pipefs/pipefs/internal/serve"
	"github.com/pipefs/pipefs/internal/source"
)

// errAgain: what a name leads to became something else meanwhile.
var errAgain = errors.New("changed while it was looked up")

// Lookup answers what a name leads to.
func (f *FS) Lookup(cancel <-chan struct{}, header *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	if len(name) > maxName {
		return enametoolong
	}
	index, id := splitNode(header.NodeId)
	if index == 0 {
		return f.restrict(f.lookupSpecial(header.NodeId, name, out), &out.Attr, out.SetAttrTimeout)
	}
	v, d := f.views.at(index), f.tree.dir(id)
	if v == nil || d == nil || d.dead.Load() {
		return estale
	}
	v.counters.lookups.Add(1)
	d.see(v, 0)
	l := lookup{f: f, v: v, d: d, name: name, cancel: cancel, header: header, out: out}
	var err error
	for range 3 {
		if err = l.run(); errors.Is(err, iofs.ErrNotExist) {
			err = l.runDraw()
		}
		if !errors.Is(err, errAgain) && !errors.Is(err, source.ErrChanged) {
			break
		}
	}
	if errors.Is(err, errAgain) {
		err = source.ErrChanged
	}
	if err != nil {
		return f.fail(v, "lookup", join(f.tree.path(id), name), noOffset, err)
	}
	return f.restrict(fuse.OK, &out.Attr, out.SetAttrTimeout)
}

// lookup is one LOOKUP in a view.
type lookup struct {
	f      *FS
	v      *view
	d      *dir
	name   string
	cancel <-chan struct{}
	header *fuse.InHeader
	out    *fuse.EntryOut
	// replaces: it is that of a sample that is tried in the place of another one.
	replaces bool
}

func (l *lookup) run() error {
	id, err := l.find()
	if err != nil {
		return err
	}
	return l.enter(id)
}

// enter describes the entry that the name leads to.
func (l *lookup) enter(id uint32) error {
	events := l.d.events.Load()
	f := l.f
	path := f.tree.path(id)
	var childEvents uint64
	if child := f.tree.looked(id); child != nil {
		childEvents = child.events.Load()
	}
	a, err := f.look(id, path)
	if isGone(err) || err == nil && !f.tree.fits(id, a) {
		// The directory was listed before this was so.
		if _, err := f.refresh(l.d); err != nil || l.replaces {
			return errOr(err, errAgain)
		}
		if again, err := l.find(); err != nil || again != id {
			return errOr(err, errAgain)
		}
		return iofs.ErrNotExist
	}
	if err != nil {
		return err
	}
	if a.Mode.IsDir() {
		f.tree.dir(id).remember(a, childEvents)
		if l.d.events.Load() != events {
			return errAgain // another directory may have the name
		}
		f.noteValidation(l.v, path)
		l.fill(node(l.v.index, id), id, a, a.Size)
		return nil
	}
	id, changed := f.tree.identify(l.d, id, a, events)
	if id == 0 {
		return errAgain
	}
	if changed {
		f.notify.entries(l.d, &change{files: []string{f.tree.name(id)}})
	}
	v := l.v
	draws := v.pipeline.Undrawn() && f.reg.IsSample(path)
	if draws {
		if v, err = f.nextDraw(v, id); err != nil {
			return err
		}
		defer v.release(1) // the reply counts once more
	}
	n, size, err := l.resolve(v, id, serve.File{Path: path, Identity: a.Identity})
	if l.replaceable(err) {
		return l.instead(v, id, err)
	}
	if err != nil {
		return err
	}
	f.bulk.lookedUp(l.d, l.header.Pid)
	l.fill(n, id, a, size)
	if draws {
		l.out.SetEntryTimeout(0)
	}
	return nil
}

func (l *lookup) fill(node uint64, id uint32, a source.Attr, size int64) {
	name, attr := l.f.keeps(l.d, id)
	l.f.fillEntry(l.out, node, a, size)
	l.out.SetEntryTimeout(name)
	l.out.SetAttrTimeout(attr)
}

// look returns the attributes of an entry as they are now. What changes them later is
// told, where that is possible.
func (f *FS) look(id uint32, path string) (source.Attr, error) {
	if f.live != nil && f.tree.entries.at(id).link {
		if _, known := f.tree.known(id); !known {
			f.live.follow(id, path)
		}
	}
	return f.server.Stat(path, false)
}

// find returns the entry that the name leads to, after listing the directory
// again if it is not found.
func (l *lookup) find() (uint32, error) {
	s, err := l.f.listing(l.d)
	if err != nil {
		return 0, err
	}
	n := l.f.namesOf(l.v, l.d, s)
	k := n.find(l.name)
	if k < 0 {
		if n.s, err = l.f.refresh(l.d); err != nil {
			return 0, err
		}
		if n.s != s {
			k = n.find(l.name)
		}
	}
	if k < 0 {
		return 0, iofs.ErrNotExist
	}
	return n.s.at(n.s.position(k)), nil
}

// resolve returns the node and size of a file in the view. What the view shows
// as it is has the node of the view `original`, so that it is cached once.
func (l *lookup) resolve(v *view, id uint32, file serve.File) (uint64, int64, error) {
	f := l.f
	if v.original() {
		return node(originalView, id), file.Identity.Size, nil
	}
	ctx, stop := requestContext(l.cancel, l.header)
	defer stop()
	n := node(v.files.index, id)
	h, err := f.handle(ctx, n, file, v)
	switch {
	case err != nil:
		return 0, 0, err
	case h.Unchanged():
		return node(originalView, id), file.Identity.Size, nil
	}
	return n, h.Size(), nil
}

func errOr(err, otherwise error) error {
	if err != nil {
		return err
	}
	return otherwise
}

// Forget is told of a node that the kernel no longer knows, and how often it had been
// told of it. Nothing is stored for a node of the tree, but its view may go.
func (f *FS) Forget(n, times uint64) {
	index, id := splitNode(n)
	if index == 0 {
		f.root.forget(id, times)
	} else if v := f.views.at(index); v != nil && !v.original() {
		v.release(times)
	}
}

// listing returns a directory's listing, made when it is first asked for, and when names
// of its files depend on what changed.
func (f *FS) listing(d *dir) (*snapshot, error) {
	if s := d.snap.Load(); s != nil && !d.stale.Load() {
		return s, nil
	}
	return f.refresh(d)
}

// refresh lists a directory again if it changed, and tells the kernel what did.
func (f *FS) refresh(d *dir) (*snapshot, error) { return f.refreshUnless(d, nil) }

// refreshUnless is refresh; see [FS.Rescan] for replaced.
func (f *FS) refreshUnless(d *dir, replaced func(path string) bool) (*snapshot, error) {
	s, diff, err := f.tree.refresh(d, replaced)
	if diff != nil {
		if f.live != nil {
			for _, id := range diff.gone {
				f.live.retire(id)
			}
		}
		f.notify.entries(d, diff)
	}
	return s, err
}
