package fs

import (
	"context"
	"errors"
	"hash/maphash"
	"path"
	"slices"
	"time"

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

// links says which entries of the tree are links to members of directories that are
// watched. Snapshots of Hugging Face have millions, so that only hashes are kept: what
// has the hash of another one is looked at in vain. It is guarded by live.mu.
type links struct {
	seed maphash.Seed
	at   map[uint64]uint32   // by hash of the member: one entry
	more map[uint64][]uint32 // the others
	dirs map[source.WatchID]bool
	// loose are the links, by path, of which not every target can be watched.
	loose map[string]bool
}

// follow watches what an entry stands for, if it is a link. It is to be called before
// the entry is looked at.
func (l *live) follow(id uint32, path string) {
	members, err := l.w.Follow(path)
	l.mu.Lock()
	defer l.mu.Unlock()
	k := &l.links
	for _, m := range members {
		k.dirs[m.Dir] = true
		hash := maphash.Comparable(k.seed, m)
		switch first := k.at[hash]; {
		case first == 0:
			k.at[hash] = id
		case !l.sameName(first, id) && !l.anySameName(k.more[hash], id):
			k.more[hash] = append(k.more[hash], id)
		}
	}
	delete(k.loose, path)
	if err != nil && !isGone(err) {
		k.loose[path] = true
		l.refuse(path, err)
	}
}

func (l *live) sameName(a, b uint32) bool {
	t := l.f.tree
	return t.entries.at(a).dir == t.entries.at(b).dir && t.name(a) == t.name(b)
}

func (l *live) anySameName(ids []uint32, id uint32) bool {
	for _, other := range ids {
		if l.sameName(other, id) {
			return true
		}
	}
	return false
}

// loose reports whether a link's target is not watched.
func (l *live) loose(id uint32) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.links.loose) > 0 && l.links.loose[l.f.tree.path(id)]
}

// toLinks handles what changed in a directory that links lead to. It reports whether
// that takes a look at everything.
func (l *live) toLinks(id source.WatchID, c *dirChanges) (all bool) {
	l.mu.Lock()
	if !l.links.dirs[id] {
		l.mu.Unlock()
		return false
	}
	if c.all || c.self&source.Gone != 0 {
		if c.self&source.Gone != 0 {
			delete(l.links.dirs, id)
			l.drop(id)
		}
		l.mu.Unlock()
		return true
	}
	found := map[uint32]*dirChanges{} // by directory of the link
	note := func(link uint32, what source.Change) {
		dir := l.f.tree.entries.at(link).dir
		if found[dir] == nil {
			found[dir] = &dirChanges{names: map[string]source.Change{}}
		}
		found[dir].names[l.f.tree.name(link)] |= what
	}
	for name, what := range c.names {
		hash := maphash.Comparable(l.links.seed, source.Member{Dir: id, Name: name})
		if link := l.links.at[hash]; link != 0 {
			note(link, what)
		}
		for _, link := range l.links.more[hash] {
			note(link, what)
		}
	}
	l.mu.Unlock()
	for dir, c := range found {
		l.f.changed(l.f.tree.dir(dir), c)
	}
	return false
}

// Rescan lists all directories again that were listed, and tells the kernel what changed. It is for
// a tree that says when it changed, as a whole. When it returns, the kernel has been told.
//
// A file that has the attributes that it had is the same file, unless replaced says otherwise; nil
// never does. Of such a file, whoever has it open goes on while it is among those that were resolved
// last, and gets ESTALE then.
func (f *FS) Rescan(ctx context.Context, replaced func(path string) bool) (err error) {
	all := f.tree.all()
	slices.SortFunc(all, func(a, b *dir) int { return int(a.id) - int(b.id) }) // those above come before those below
	for _, d := range all {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if d.dead.Load() {
			continue
		}
		d.touch()
		if d.snap.Load() == nil {
			continue
		}
		d.stale.Store(true)
		// A directory that went is told with the one above it.
		if _, e := f.refreshUnless(d, replaced); e != nil && !isGone(e) && err == nil {
			err = e
		}
	}
	return errors.Join(err, f.told(ctx))
}

// RescanRoot is Rescan after the directory of the dataset was replaced by another one.
func (f *FS) RescanRoot(ctx context.Context) error {
	if f.live == nil {
		return f.Rescan(ctx, nil)
	}
	f.live.unwatch(f.tree.dir(rootID))
	f.live.lookThrough(ctx.Done())
	return f.told(ctx)
}

// told waits until the kernel was told of all that is known to have changed.
func (f *FS) told(ctx context.Context) error {
	for f.notify.busy.Load() > 0 && f.kernel.Load() != nil {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
	return nil
}

// ResolveAgain makes the next reader of each file ask the server what it is made of, but for files
// that were replaced since they were looked up: those go on as they began.
func (f *FS) ResolveAgain() {
	f.handles.forget(func(n uint64) bool {
		index, id := splitNode(n)
		return index != 0 && f.tree.current(id)
	})
}

// current reports whether an entry is the one that its name leads to.
func (t *tree) current(id uint32) bool {
	e := t.entries.at(id)
	if e == nil {
		return false
	}
	d := t.looked(e.dir)
	if d == nil {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	snap := d.snap.Load()
	if snap == nil {
		return false
	}
	k := t.search(snap, t.name(id))
	return k < len(snap.ids) && snap.at(snap.position(k)) == id
}
