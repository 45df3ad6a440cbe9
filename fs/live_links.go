package fs

import (
	"hash/maphash"

	"github.com/pipefs/pipefs/internal/source"
)

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
