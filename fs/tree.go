package fs

import (
	iofs "io/fs"
	"maps"
	"slices"
	"sort"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/pipefs/pipefs/internal/source"
)

// rootID is the entry of the dataset's root.
const rootID = 1

// entry is a member of the tree. All but attr is written once. Twenty bytes, no
// pointers: there are millions of them.
type entry struct {
	dir  uint32 // the entry it lies in; 0 for the root
	blob uint32 // its name is blobs[blob][off:off+len]
	off  uint32
	attr uint32 // into attrs, atomic; 0 while a file was never looked at
	len  uint8
	kind uint8
	link bool // it may be a link: what it stands for lies elsewhere
}

const (
	isFile uint8 = iota
	isDir
)

// attr is what is known of a file. It never changes: a file that changes becomes
// another entry.
type attr struct {
	source.Identity
	owner uint32 // into owners
}

// owner is what many files share.
type owner struct {
	mode     iofs.FileMode
	uid, gid uint32
}

// tree is the dataset's tree as far as it was listed.
type tree struct {
	src members
	// watch begins to watch a directory of a Watched mount, and reports whether it was
	// not watched before. Otherwise it is nil.
	watch func(d *dir, path string) (began bool)
	// sure: changes of files are noticed without looking at them when a directory is
	// listed.
	sure    bool
	journal *Journal // nil where nobody reads it
	entries chunked[entry]
	blobs   chunked[string] // the names of one listing each
	attrs   chunked[attr]
	owners  chunked[owner]

	ownerMu sync.Mutex
	ownerID map[owner]uint32

	dirMu sync.RWMutex
	dirs  map[uint32]*dir // the directories that were looked at

	version atomic.Uint64 // counts changes of what is listed
	bytes   atomic.Int64  // of the files that were looked at
}

// members is what the tree needs of a Server.
type members interface {
	List(dir string) ([]source.Entry, error)
	Stat(path string, fresh bool) (source.Attr, error)
}

func newTree(src members) *tree {
	t := &tree{src: src, ownerID: map[owner]uint32{}, dirs: map[uint32]*dir{}}
	t.entries.add(entry{kind: isDir, blob: t.blobs.add("")})
	return t
}

// dir is a directory that was looked at.
type dir struct {
	id     uint32
	snap   atomic.Pointer[snapshot] // nil until it is listed
	before atomic.Pointer[snapshot] // the listing before that: the kernel may have cached it
	attr   atomic.Pointer[source.Attr]

	lister  atomic.Uint32 // the thread that listed it last
	lookups atomic.Uint32 // of files, by that thread since

	mu       sync.Mutex // held while it is listed or an entry is replaced
	listed   source.Identity
	listedAt int64      // ns since 1970
	seen     []viewSeen // the views in which the kernel knows it
	seenMu   sync.RWMutex

	// Of a Watched mount; the others leave them alone.
	watch   source.WatchID // guarded by live.mu
	watched atomic.Bool
	dead    atomic.Bool   // it went, or another one has its name
	stale   atomic.Bool   // list it again before a name is looked up
	events  atomic.Uint64 // counts what was told of it
}

// viewSeen says which listing of a directory the kernel may have cached.
type viewSeen struct {
	view    uint32
	version uint32 // 0: none
}

// snapshot is one listing of a directory.
type snapshot struct {
	version uint32   // of the directory's listings, from 1
	ids     []uint32 // in the order of listing; elements are replaced atomically
	sorted  []uint32 // positions in the order of names; nil where that is the same
}

// at returns the entry at a position of the listing.
func (s *snapshot) at(position int) uint32 { return atomic.LoadUint32(&s.ids[position]) }

// position returns where the k-th name in the order of names is listed.
func (s *snapshot) position(k int) int {
	if s.sorted == nil {
		return k
	}
	return int(s.sorted[k])
}

// name is an entry's own name.
func (t *tree) name(id uint32) string {
	e := t.entries.at(id)
	return (*t.blobs.at(e.blob))[e.off : e.off+uint32(e.len)]
}

// nameAt is the k-th name of a listing in the order of names.
func (t *tree) nameAt(s *snapshot, k int) string { return t.name(s.at(s.position(k))) }

// search returns the first k with a name of at least name.
func (t *tree) search(s *snapshot, name string) int {
	return sort.Search(len(s.ids), func(k int) bool { return t.nameAt(s, k) >= name })
}

// path is relative to the dataset's root.
func (t *tree) path(id uint32) string {
	if id == rootID {
		return ""
	}
	n := 0
	for at := id; at != rootID; {
		e := t.entries.at(at)
		n += int(e.len) + 1
		at = e.dir
	}
	buf := make([]byte, n-1)
	for at, end := id, n-1; ; {
		e := t.entries.at(at)
		end -= copy(buf[end-int(e.len):], t.name(at))
		if at = e.dir; at == rootID {
			return string(buf)
		}
		end--
		buf[end] = '/'
	}
}

// join appends a name to the path of a directory.
func join(dir, name string) string {
	if dir == "" {
		return name
	}
	return dir + "/" + name
}

// dir returns the record of a directory, made when it is first asked for; nil if
// id is none.
func (t *tree) dir(id uint32) *dir {
	t.dirMu.RLock()
	d := t.dirs[id]
	t.dirMu.RUnlock()
	if d != nil {
		return d
	}
	if e := t.entries.at(id); e == nil || e.kind != isDir {
		return nil
	}
	t.dirMu.Lock()
	defer t.dirMu.Unlock()
	if d = t.dirs[id]; d == nil {
		d = &dir{id: id}
		t.dirs[id] = d
	}
	return d
}

// looked returns the record of a directory if there is one.
func (t *tree) looked(id uint32) *dir {
	t.dirMu.RLock()
	defer t.dirMu.RUnlock()
	return t.dirs[id]
}

// all returns the records of all directories.
func (t *tree) all() []*dir {
	t.dirMu.RLock()
	defer t.dirMu.RUnlock()
	return slices.Collect(maps.Values(t.dirs))
}

// known returns the attributes of an entry if they are known without asking.
func (t *tree) known(id uint32) (source.Attr, bool) {
	e := t.entries.at(id)
	if e == nil {
		return source.Attr{}, false
	}
	if e.kind == isDir {
		d := t.looked(id)
		if d == nil {
			return source.Attr{}, false
		}
		a := d.attr.Load()
		if a == nil {
			return source.Attr{}, false
		}
		return *a, true
	}
	i := atomic.LoadUint32(&e.attr)
	if i == 0 {
		return source.Attr{}, false
	}
	a := t.attrs.at(i)
	o := t.owners.at(a.owner)
	return source.Attr{Identity: a.Identity, Mode: o.mode, UID: o.uid, GID: o.gid}, true
}

// fits reports whether an entry can have these attributes: whether it still is a
// file, or a directory.
func (t *tree) fits(id uint32, a source.Attr) bool {
	if t.entries.at(id).kind == isDir {
		return a.Mode.IsDir()
	}
	return a.Mode.IsRegular()
}

// record stores what was found out about a file.
func (t *tree) record(a source.Attr) uint32 {
	o := owner{a.Mode, a.UID, a.GID}
	t.ownerMu.Lock()
	i, ok := t.ownerID[o]
	if !ok {
		i = t.owners.add(o)
		t.ownerID[o] = i
	}
	t.ownerMu.Unlock()
	t.bytes.Add(a.Size)
	return t.attrs.add(attr{a.Identity, i})
}

// identify says which entry a file is, given its present attributes: the one
// that has been there, or, if it changed, another one; 0 if it is not listed any
// more, or if the directory changed since there were so many events.
func (t *tree) identify(d *dir, id uint32, now source.Attr, events uint64) (current uint32, changed bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.events.Load() != events {
		return 0, false
	}
	// Somebody else may have noticed the change.
	snap := d.snap.Load()
	k := t.search(snap, t.name(id))
	if k == len(snap.ids) || t.nameAt(snap, k) != t.name(id) {
		return 0, false
	}
	slot := &snap.ids[snap.position(k)]
	current = atomic.LoadUint32(slot)
	e := t.entries.at(current)
	if e.kind != isFile {
		return current, current != id
	}
	if before, ok := t.known(current); !ok {
		t.journal.attr(current, now)
		atomic.StoreUint32(&e.attr, t.record(now))
	} else if before != now {
		current = t.succeed(slot, now)
	}
	return current, current != id
}

// succeed gives the name at a position of a listing another entry, which has these
// attributes. The caller holds the directory's mu.
func (t *tree) succeed(slot *uint32, now source.Attr) uint32 {
	before := atomic.LoadUint32(slot)
	next := *t.entries.at(before)
	next.attr = t.record(now)
	id := t.entries.add(next)
	t.journal.replaced(id, before, next)
	t.journal.attr(id, now)
	atomic.StoreUint32(slot, id)
	return id
}

// disown takes from an entry that has a successor what is known of it: its attributes would lead to
// the successor's bytes.
func (t *tree) disown(id uint32) {
	t.journal.attr(id, source.Attr{})
	atomic.StoreUint32(&t.entries.at(id).attr, 0)
}

// replace gives the k-th name of a listing another entry, which nobody looked at. The
// caller holds the directory's mu.
func (t *tree) replace(snap *snapshot, k int, link bool) {
	slot := &snap.ids[snap.position(k)]
	before := atomic.LoadUint32(slot)
	next := *t.entries.at(before)
	next.attr, next.link = 0, next.link || link
	id := t.entries.add(next)
	t.journal.replaced(id, before, next)
	atomic.StoreUint32(slot, id)
}

// forget makes the name of a file that changed lead to another entry, unless it does
// already.
func (t *tree) forget(d *dir, id uint32) {
	d.mu.Lock()
	defer d.mu.Unlock()
	snap, name := d.snap.Load(), t.name(id)
	if k := t.search(snap, name); k < len(snap.ids) && snap.at(snap.position(k)) == id {
		t.replace(snap, k, true)
	}
}

// chunkLen is a power of two: the index splits by shift and mask.
const (
	chunkBits = 12
	chunkLen  = 1 << chunkBits
)

// chunked is an append-only array that never moves, so that readers need no
// lock. An element below the length is written before the length says so. The
// element 0 is never given out: 0 means none.
type chunked[T any] struct {
	mu     sync.Mutex
	chunks atomic.Pointer[[]*[chunkLen]T]
	len    atomic.Uint32 // of what is in use, element 0 included
}

// at returns an element, or nil where there is none: numbers come from the
// kernel.
func (c *chunked[T]) at(i uint32) *T {
	if i == 0 || i >= c.len.Load() {
		return nil
	}
	return &(*c.chunks.Load())[i>>chunkBits][i&(chunkLen-1)]
}

// add appends and returns the index.
func (c *chunked[T]) add(v T) uint32 { return c.addAll([]T{v}) }

// addAll appends, and returns the index of the first one.
func (c *chunked[T]) addAll(all []T) (first uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	first = max(1, c.len.Load())
	var chunks []*[chunkLen]T
	if p := c.chunks.Load(); p != nil {
		chunks = *p
	}
	for i := first; len(all) > 0; {
		if int(i>>chunkBits) == len(chunks) {
			grown := append(chunks[:len(chunks):len(chunks)], new([chunkLen]T))
			c.chunks.Store(&grown)
			chunks = grown
		}
		n := copy(chunks[i>>chunkBits][i&(chunkLen-1):], all)
		i, all = i+uint32(n), all[n:]
		c.len.Store(i)
	}
	return first
}

// count is the number of elements.
func (c *chunked[T]) count() int { return int(max(1, c.len.Load())) - 1 }

// packer joins names into one string and gives their entries out.
type packer struct {
	t     *tree
	dir   uint32
	names strings.Builder
	ids   []*uint32
	made  []entry
}

func (p *packer) add(name string, kind uint8, link bool, id *uint32) {
	p.made = append(p.made, entry{dir: p.dir, off: uint32(p.names.Len()), len: uint8(len(name)), kind: kind, link: link})
	p.names.WriteString(name)
	p.ids = append(p.ids, id)
}

func (p *packer) finish() {
	if len(p.made) == 0 {
		return
	}
	blob := p.t.blobs.add(strings.Clone(p.names.String()))
	for i := range p.made {
		p.made[i].blob = blob
	}
	first := p.t.entries.addAll(p.made)
	for i, id := range p.ids {
		*id = first + uint32(i)
	}
	p.t.journal.entries(p.dir, *p.t.blobs.at(blob), p.made, p.ids)
}
