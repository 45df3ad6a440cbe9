package fs

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/pipefs/pipefs/fs/conn"
	"github.com/pipefs/pipefs/internal/source"
)

// notifier tells the kernel what it has to forget. It does so in a goroutine of
// its own: the kernel holds a directory locked while it waits for the answer to a
// LOOKUP, and waits for that lock when it is told to forget a name.
type notifier struct {
	mu    sync.Mutex
	queue []notice
	wake  chan struct{}
	busy  atomic.Int64 // notices that are not done
}

// notice is one thing to forget: names of a directory, a view, or the pages of a file.
type notice struct {
	d     *dir
	diff  *change
	view  *view
	pages uint64 // the file's node
}

func (n *notifier) init() { n.wake = make(chan struct{}, 1) }

// entries makes the kernel forget what it knows of the given names of a
// directory, in every view.
func (n *notifier) entries(d *dir, diff *change) {
	n.add(notice{d: d, diff: diff})
}

// views makes the kernel forget views that have expired.
func (n *notifier) views(expired []*view) {
	for _, v := range expired {
		n.add(notice{view: v})
	}
}

func (n *notifier) add(what notice) {
	n.busy.Add(1)
	n.mu.Lock()
	n.queue = append(n.queue, what)
	n.mu.Unlock()
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

func (n *notifier) take() []notice {
	n.mu.Lock()
	defer n.mu.Unlock()
	q := n.queue
	n.queue = nil
	return q
}

// runNotifier serves the queue until stop is closed.
func (f *FS) runNotifier(c *conn.Conn, stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case <-f.notify.wake:
		}
		for _, n := range f.notify.take() {
			f.forget(c, n)
			f.notify.busy.Add(-1)
		}
	}
}

// forget handles one notice. What the kernel does not know it ignores.
func (f *FS) forget(c *conn.Conn, n notice) {
	if n.view != nil {
		// The kernel drops what nobody has open, and says so by FORGET.
		parent, name := f.root.parentOf(n.view)
		f.forgetName(c, parent, name)
		n.view.release(0)
		return
	}
	if n.pages != 0 {
		c.InodeNotify(n.pages, 0, 0)
		return
	}
	snaps := []*snapshot{n.diff.old, n.diff.new}
	if n.diff.new == nil {
		snaps = []*snapshot{n.d.snap.Load()}
	}
	for _, v := range f.viewsOf(n.d) {
		parent := node(v.index, n.d.id)
		told := map[string]bool{}
		tell := func(name string) {
			if !told[name] {
				told[name] = true
				f.forgetName(c, parent, name)
			}
		}
		for _, own := range n.diff.names {
			tell(own)
		}
		for _, snap := range snaps {
			if snap == nil {
				continue
			}
			names := f.namesOf(v, n.d, snap)
			for _, own := range n.diff.names {
				for _, k := range names.alike(own) {
					tell(names.own(k))
					tell(names.listed(k))
				}
			}
			for _, own := range n.diff.files {
				if k := f.tree.search(snap, own); k < len(snap.ids) && names.own(k) == own {
					tell(own)
					tell(names.listed(k))
				}
			}
		}
		for _, id := range n.diff.dirs {
			c.InodeNotify(node(v.index, id), attributes, 0)
		}
	}
	if n.diff.listing || len(n.diff.names) > 0 {
		for _, v := range f.viewsThatKnow(n.d) {
			// The cached listing, and the attributes.
			c.InodeNotify(node(v.index, n.d.id), 0, 0)
		}
	}
}

// forgetName makes the kernel forget a name. It may wait for the reply to a request: see
// [Options.Expire].
func (f *FS) forgetName(c *conn.Conn, parent uint64, name string) {
	if !f.expire {
		c.EntryNotify(parent, name)
	}
}

// attributes is the offset by which the kernel is told to forget the attributes of a
// node and not its pages.
const attributes = -1

// viewsOf returns the views in which the kernel has looked names of a directory up.
func (f *FS) viewsOf(d *dir) (all []*view) {
	d.seenMu.RLock()
	defer d.seenMu.RUnlock()
	for _, s := range d.seen {
		if v := f.views.at(s.view); v != nil { // and not forgotten
			all = append(all, v)
		}
	}
	return all
}

// viewsThatKnow returns the views in which the kernel may know a directory.
func (f *FS) viewsThatKnow(d *dir) []*view {
	if d.id == rootID {
		return f.views.known()
	}
	return f.viewsOf(f.tree.dir(f.tree.entries.at(d.id).dir))
}

// see notes that the kernel knows a directory in a view, and returns the version
// of the listing that it was given last. A version of 0 leaves that alone.
func (d *dir) see(v *view, version uint32) (before uint32) {
	d.seenMu.RLock()
	for _, s := range d.seen {
		if s.view == v.index && (version == 0 || s.version == version) {
			d.seenMu.RUnlock()
			return s.version
		}
	}
	d.seenMu.RUnlock()
	d.seenMu.Lock()
	defer d.seenMu.Unlock()
	for i := range d.seen {
		if s := &d.seen[i]; s.view == v.index {
			before = s.version
			if version != 0 {
				s.version = version
			}
			return before
		}
	}
	if len(d.seen) == cap(d.seen) {
		d.seen = slices.DeleteFunc(d.seen, func(s viewSeen) bool { return v.views.at(s.view) == nil })
	}
	d.seen = append(d.seen, viewSeen{v.index, version})
	return 0
}

// lost answers for a file that cannot be had. If that is because it changed or
// went, the kernel is told to forget the names that lead to it, so that the next
// one who opens it gets what is there now.
func (f *FS) lost(v *view, id uint32, op, path string, off int64, err error) fuse.Status {
	if isGone(err) {
		// It was there when it was looked up.
		err = goneError{err}
	}
	status := f.fail(v, op, path, off, err)
	if status != estale {
		return status
	}
	d := f.tree.dir(f.tree.entries.at(id).dir)
	f.tree.forget(d, id)
	f.notify.entries(d, &change{names: []string{f.tree.name(id)}})
	return status
}

// goneError is ErrChanged with its cause.
type goneError struct{ cause error }

func (e goneError) Error() string   { return e.cause.Error() }
func (e goneError) Unwrap() []error { return []error{source.ErrChanged, e.cause} }
