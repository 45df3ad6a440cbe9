package fs

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/pipefs/pipefs/internal/produce"
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

// notice is one thing to forget: names of a directory, or a view.
type notice struct {
	d    *dir
	diff *change
	view *view
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
func (f *FS) runNotifier(s *fuse.Server, stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case <-f.notify.wake:
		}
		for _, n := range f.notify.take() {
			f.forget(s, n)
			f.notify.busy.Add(-1)
		}
	}
}

// forget handles one notice. What the kernel does not know it ignores.
func (f *FS) forget(s *fuse.Server, n notice) {
	if n.view != nil {
		// The kernel drops what nobody has open, and says so by FORGET.
		s.EntryNotify(rootNode, n.view.name)
		n.view.release(0)
		return
	}
	n.d.seenMu.RLock()
	seen := append([]viewSeen(nil), n.d.seen...)
	n.d.seenMu.RUnlock()
	snaps := []*snapshot{n.diff.old, n.diff.new}
	if n.diff.new == nil {
		snaps = []*snapshot{n.d.snap.Load()}
	}
	for _, at := range seen {
		v := f.views.at(at.view)
		if v == nil {
			continue // forgotten
		}
		parent := node(v.index, n.d.id)
		told := map[string]bool{}
		tell := func(name string) {
			if !told[name] {
				told[name] = true
				s.EntryNotify(parent, name)
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
		}
		// The cached listing, and the attributes.
		s.InodeNotify(parent, 0, 0)
	}
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
	if now, err := f.producer.Stat(path); err == nil && now.Mode.IsRegular() {
		f.tree.identify(d, id, now)
	}
	f.notify.entries(d, &change{names: []string{f.tree.name(id)}})
	return status
}

// goneError is ErrChanged with its cause.
type goneError struct{ cause error }

func (e goneError) Error() string   { return e.cause.Error() }
func (e goneError) Unwrap() []error { return []error{produce.ErrChanged, e.cause} }
