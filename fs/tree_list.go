package fs

import (
	"errors"
	iofs "io/fs"
	"sort"
	"time"

	"github.com/pipefs/pipefs/internal/source"
)

// ctimeGrain is how old a directory's ctime must be for a later change to show in
// it: the clock of file systems ticks, on some of them every two seconds.
const ctimeGrain = 2 * time.Second

// change is what differs in a directory: what a new listing says, or what was told.
type change struct {
	old, new *snapshot
	// names that came, went, or changed what they stand for: own names. Listed names of
	// other files may follow from them.
	names []string
	gone  []uint32 // directories among them
	files []string // own names of files that changed
	dirs  []uint32 // directories in it whose attributes changed
	// listing: names or attributes of the directory itself changed, if names does not
	// say so
	listing bool
}

func (c *change) empty() bool {
	return !c.listing && len(c.names)+len(c.files)+len(c.dirs) == 0
}

// refresh lists a directory again if it changed. What changed is nil if nothing
// did, or if nobody can know of it.
func (t *tree) refresh(d *dir, replaced func(path string) bool) (*snapshot, *change, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	path := t.path(d.id)
	// A change after this is told.
	began := t.watch != nil && t.watch(d, path)
	events := d.events.Load()
	before := time.Now().UnixNano()
	a, err := t.src.Stat(path, false)
	if err != nil {
		return nil, nil, err
	}
	if !a.Mode.IsDir() {
		return nil, nil, iofs.ErrNotExist
	}
	if last := d.attr.Load(); last == nil || *last != a {
		d.remember(a, events)
	}
	snap := d.snap.Load()
	if snap != nil && !began && !d.stale.Load() && d.listed == a.Identity && time.Duration(d.listedAt-a.CTime) > ctimeGrain {
		return snap, nil, nil
	}
	found, err := t.src.List(path)
	if err != nil {
		return nil, nil, err
	}
	d.listed, d.listedAt = a.Identity, before
	d.stale.Store(false)
	next, diff := t.merge(d, snap, found)
	if snap != nil && (!t.sure || began) {
		// What is renamed onto a name changes the directory, too.
		diff.names = append(diff.names, t.verify(d, next, replaced)...)
	}
	if same(snap, next) {
		next = snap
	} else {
		if snap != nil {
			next.version = snap.version + 1
		}
		t.journal.listing(d.id, next)
		d.before.Store(snap)
		d.snap.Store(next)
		t.version.Add(1)
	}
	diff.old, diff.new = snap, next
	if snap == nil || len(diff.names) == 0 && next == snap {
		return next, nil, nil
	}
	return next, diff, nil
}

// merge makes a listing of what was found. Entries that stay keep their ids.
func (t *tree) merge(d *dir, old *snapshot, found []source.Entry) (*snapshot, *change) {
	diff := &change{}
	found = valid(found)
	next := &snapshot{version: 1, ids: make([]uint32, len(found))}
	order := func(i, j int) bool { return found[i].Name < found[j].Name }
	if !sort.SliceIsSorted(found, order) {
		next.sorted = make([]uint32, len(found))
		for i := range next.sorted {
			next.sorted[i] = uint32(i)
		}
		sort.Slice(next.sorted, func(i, j int) bool { return order(int(next.sorted[i]), int(next.sorted[j])) })
	}
	p := packer{t: t, dir: d.id}
	k := 0 // in old
	went := func(k int) {
		if id := old.at(old.position(k)); t.entries.at(id).kind == isDir {
			diff.gone = append(diff.gone, id)
		}
	}
	for n := range found {
		at := next.position(n)
		e := found[at]
		kind := isFile
		if e.Dir {
			kind = isDir
		}
		for old != nil && k < len(old.ids) && t.nameAt(old, k) < e.Name {
			diff.names = append(diff.names, t.nameAt(old, k))
			went(k)
			k++
		}
		if old != nil && k < len(old.ids) && t.nameAt(old, k) == e.Name {
			id := old.at(old.position(k))
			k++
			if was := t.entries.at(id); was.kind == kind && (was.link || !e.Link) {
				next.ids[at] = id
				continue
			}
			went(k - 1)
		}
		p.add(e.Name, kind, e.Link, &next.ids[at])
		if old != nil {
			diff.names = append(diff.names, e.Name)
		}
	}
	for ; old != nil && k < len(old.ids); k++ {
		diff.names = append(diff.names, t.nameAt(old, k))
		went(k)
	}
	p.finish()
	return next, diff
}

// valid leaves out what cannot be a name.
func valid(found []source.Entry) []source.Entry {
	ok := true
	for _, e := range found {
		ok = ok && validName(e.Name)
	}
	if ok {
		return found
	}
	kept := found[:0:0]
	for _, e := range found {
		if validName(e.Name) {
			kept = append(kept, e)
		}
	}
	return kept
}

func validName(name string) bool {
	if len(name) == 0 || len(name) > maxName || name == "." || name == ".." {
		return false
	}
	for i := range len(name) {
		if name[i] == '/' || name[i] == 0 {
			return false
		}
	}
	return true
}

// verify looks again at the files that were looked at before, and gives those
// that changed another id in next, and those that were replaced.
func (t *tree) verify(d *dir, next *snapshot, replaced func(path string) bool) (names []string) {
	path := t.path(d.id)
	for k := range next.ids {
		slot := &next.ids[next.position(k)]
		id := *slot
		e := t.entries.at(id)
		before, ok := t.known(id)
		if !ok || e.kind == isDir {
			continue
		}
		full := join(path, t.name(id))
		now, err := t.src.Stat(full, false)
		same := now == before
		if err != nil || !now.Mode.IsRegular() || same && (replaced == nil || !replaced(full)) {
			continue
		}
		t.succeed(slot, now)
		if same {
			t.disown(id)
		}
		names = append(names, t.name(id))
	}
	return names
}

// same reports whether two listings lead to the same entries in the same order.
func same(a, b *snapshot) bool {
	if a == nil || len(a.ids) != len(b.ids) {
		return false
	}
	for i := range b.ids {
		if a.at(i) != b.ids[i] {
			return false
		}
	}
	return true
}

// isGone reports whether an error says that a file is not there.
func isGone(err error) bool { return errors.Is(err, iofs.ErrNotExist) }
