package fs

import (
	"path"

	"github.com/pipefs/pipefs/internal/source"
)

// batchNames is how many names of a directory are looked at while its lock is held.
const batchNames = 64

// changed finds out which of the names of a directory that changed the kernel may know,
// makes them lead to other entries, and tells the kernel. It lists the directory only
// where it is not known what changed: otherwise the next request does.
func (f *FS) changed(d *dir, c *dirChanges) {
	if d.dead.Load() {
		return
	}
	diff := &change{}
	d.mu.Lock()
	// From now on a LOOKUP that looked at a file before this is done again.
	d.touch()
	snap := d.snap.Load()
	diff.listing = c.self&source.Content != 0
	n := 0
	look := func(name string, what source.Change) {
		if n++; n%batchNames == 0 {
			d.mu.Unlock()
			d.mu.Lock()
		}
		f.changedName(d, name, what, diff)
	}
	for name, what := range c.names {
		if what&source.Names != 0 {
			diff.listing = true
		}
		look(name, what)
	}
	for k := 0; c.all && snap != nil && k < len(snap.ids); k++ {
		look(f.tree.nameAt(snap, k), source.Lost)
	}
	d.stale.Store(d.stale.Load() || c.all)
	d.mu.Unlock()
	if !diff.empty() {
		f.notify.entries(d, diff)
	}
	if c.all && snap != nil {
		_, _ = f.refresh(d) // where it fails, so does what asks next
	}
}

// changedName handles one name. The caller holds d.mu.
func (f *FS) changedName(d *dir, name string, what source.Change, diff *change) {
	snap := d.snap.Load()
	if snap == nil {
		return // the kernel knows none of its names
	}
	if what&source.Names != 0 && f.renames(d, snap, name) {
		d.stale.Store(true)
		diff.names = append(diff.names, name)
	}
	k := f.tree.search(snap, name)
	if k == len(snap.ids) || f.tree.nameAt(snap, k) != name {
		return
	}
	id := snap.at(snap.position(k))
	switch {
	case f.tree.entries.at(id).kind == isDir:
		f.changedDir(snap, k, what, diff)
	case f.changedFile(snap, k, what):
		diff.files = append(diff.files, name)
	}
}

// changedFile gives a file that changed since it was looked at another entry, which
// nobody looked at yet. The caller holds the directory's mu.
func (f *FS) changedFile(snap *snapshot, k int, what source.Change) bool {
	id := snap.at(snap.position(k))
	before, known := f.tree.known(id)
	if !known {
		return false
	}
	// What has the name now may be a link, even if it was looked at since.
	another := what&source.Names != 0
	if now, err := f.server.Stat(f.tree.path(id), false); err == nil && now == before && !another {
		return false
	}
	f.tree.replace(snap, k, another)
	return true
}

// changedDir handles the name of a directory: another one may have it, or none. The
// caller holds the mu of the directory above.
func (f *FS) changedDir(snap *snapshot, k int, what source.Change, diff *change) {
	id := snap.at(snap.position(k))
	child := f.tree.looked(id)
	if child == nil {
		return
	}
	child.touch()
	diff.dirs = append(diff.dirs, id)
	if what&(source.Names|source.Lost) == 0 {
		return
	}
	at := f.tree.path(id)
	if child.watched.Load() {
		if f.live.still(child, at) {
			return
		}
	} else if now, err := f.server.Stat(at, false); err == nil && now.Mode.IsDir() && child.snap.Load() == nil {
		return // nobody knows more than its attributes
	}
	f.tree.replace(snap, k, true)
	f.live.retire(id)
	diff.names = append(diff.names, f.tree.name(id))
}

// renames reports whether the listed name of another file may depend on whether there
// is a file of this name: in a view in which both, or their results, are called alike.
func (f *FS) renames(d *dir, snap *snapshot, name string) bool {
	for _, v := range f.viewsOf(d) {
		n := f.namesOf(v, d, snap)
		if n.clashes(name) {
			return true
		}
	}
	return false
}

// touch notes that something changed in a directory: what is known of it is old.
func (d *dir) touch() {
	d.seenMu.Lock()
	defer d.seenMu.Unlock()
	d.events.Add(1)
	d.attr.Store(nil)
}

// remember stores a directory's attributes, unless it changed since there were so many
// events.
func (d *dir) remember(a source.Attr, events uint64) {
	d.seenMu.Lock()
	defer d.seenMu.Unlock()
	if d.events.Load() == events {
		d.attr.Store(&a)
	}
}

// clashes reports whether the listed name of an entry that is not called name depends
// on whether there is a file of that name.
func (n *names) clashes(name string) bool {
	as := n.reg.Name(n.pipeline, name, n.role(name))
	for _, k := range n.alike(name) {
		own, target := n.own(k), n.target(k)
		if own == name || own == target {
			continue
		}
		full := own + path.Ext(target)
		if name == target || as == target || name == full || as == full {
			return true
		}
	}
	return false
}
