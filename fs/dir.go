package fs

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// dirHandles are the directories that are open.
type dirHandles struct {
	mu   sync.Mutex
	next uint64
	open map[dirKey]*dirHandle
}

// dirKey names an open directory. Two daemons may have given one number to handles of different nodes.
type dirKey struct{ node, fh uint64 }

// dirHandle is an open directory. It shows the listing that it was opened on, whatever happens to
// the directory. An offset is the version of a listing and a position in it: the kernel may have
// listed the beginning from its cache, which somebody else has filled since with another listing.
type dirHandle struct {
	v *view
	d *dir

	mu   sync.Mutex
	snap *snapshot

	special []fuse.DirEntry // of a directory that belongs to no view
	self    uint64
	parent  uint64
}

// add gives a handle a number, which tells the version of the listing that it shows:
// another daemon may have to show the same one.
func (h *dirHandles) add(handle *dirHandle) uint64 {
	version := uint64(len(handle.special))
	if handle.snap != nil {
		version = uint64(handle.snap.version)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.next = (h.next + 1) & (1<<32 - 1)
	fh := version<<32 | h.next
	h.open[dirKey{handle.self, fh}] = handle
	return fh
}

func (h *dirHandles) get(key dirKey) *dirHandle {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.open[key]
}

// OpenDir lists the directory again if it changed. The kernel keeps listings as
// long as they are those of the last time.
func (f *FS) OpenDir(_ <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	index, id := splitNode(in.NodeId)
	if index == 0 {
		out.Fh = f.dirs.add(&dirHandle{special: f.listSpecial(in.NodeId), self: in.NodeId, parent: rootNode})
		return fuse.OK
	}
	v, d := f.views.at(index), f.tree.dir(id)
	if v == nil || d == nil || d.dead.Load() {
		return estale
	}
	d.see(v, 0) // before listing, so that no change is missed
	d.listedBy(in.Pid)
	s, err := f.refresh(d)
	if err != nil {
		return f.fail(v, "opendir", f.tree.path(id), noOffset, err)
	}
	out.OpenFlags = fuse.FOPEN_CACHE_DIR
	if d.see(v, s.version) == s.version {
		out.OpenFlags |= fuse.FOPEN_KEEP_CACHE
	}
	h := &dirHandle{v: v, d: d, snap: s, self: in.NodeId, parent: rootNode}
	if id != rootID {
		h.parent = node(index, f.tree.entries.at(id).dir)
	}
	out.Fh = f.dirs.add(h)
	return fuse.OK
}

// ReleaseDir ends a handle.
func (f *FS) ReleaseDir(in *fuse.ReleaseIn) {
	f.dirs.mu.Lock()
	defer f.dirs.mu.Unlock()
	delete(f.dirs.open, dirKey{in.NodeId, in.Fh})
}

// listSpecial lists a directory that belongs to no view. `.pipefs` is not listed
// in the root: ImageFolder and its like take every directory for a class.
func (f *FS) listSpecial(n uint64) (entries []fuse.DirEntry) {
	r := f.root
	switch n {
	case rootNode:
		f.views.mu.RLock()
		listed := slices.Clone(f.views.listed)
		f.views.mu.RUnlock()
		for _, name := range listed {
			entries = append(entries, fuse.DirEntry{Name: name, Mode: unix.S_IFDIR, Ino: node(f.views.named(name, false).index, rootID)})
		}
		r.mu.Lock()
		for _, l := range r.links {
			entries = append(entries, fuse.DirEntry{Name: l.name, Mode: unix.S_IFLNK, Ino: l.to.node})
		}
		r.mu.Unlock()
		entries = r.listFiles(entries, r.inDir(n))
	case pipefsNode:
		entries = r.listFiles(entries, "")
		for i, name := range r.dirs {
			entries = append(entries, fuse.DirEntry{Name: name, Mode: unix.S_IFDIR, Ino: firstDir + uint64(i)})
		}
		if r.control != nil {
			entries = append(entries, fuse.DirEntry{Name: controlName, Mode: unix.S_IFLNK, Ino: r.control.node})
		}
		entries = append(entries, fuse.DirEntry{Name: listsName, Mode: unix.S_IFDIR, Ino: listsNode})
	case listsNode:
		f.views.mu.RLock()
		for _, name := range f.views.listed {
			entries = append(entries, fuse.DirEntry{Name: name + listSuffix, Mode: unix.S_IFREG})
		}
		f.views.mu.RUnlock()
	default:
		if s := r.special(uint32(n)); s != nil && s.epoch != nil {
			return s.epoch.list(nil)
		}
		entries = r.listFiles(entries, r.inDir(n))
	}
	return entries
}

// listFiles lists the files of Options.Files in one directory.
func (r *root) listFiles(entries []fuse.DirEntry, dir string) []fuse.DirEntry {
	for _, name := range slices.Sorted(maps.Keys(r.files)) {
		if rest, ok := strings.CutPrefix(name, dir); ok && !strings.Contains(rest, "/") {
			entries = append(entries, fuse.DirEntry{Name: rest, Mode: unix.S_IFREG})
		}
	}
	return entries
}

// ReadDir lists names and types.
func (f *FS) ReadDir(_ <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	return f.readDir(in, func(_ *dirHandle, e fuse.DirEntry, _ uint32) bool { return out.AddDirEntry(e) })
}

// ReadDirPlus adds attributes where they are known, or wanted.
func (f *FS) ReadDirPlus(_ <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	wanted := f.bulk.wanted()
	return f.readDir(in, func(h *dirHandle, e fuse.DirEntry, id uint32) bool {
		entry := out.AddDirLookupEntry(e)
		if entry != nil && id != 0 {
			f.fillListed(entry, h, e, id, wanted)
		}
		return entry != nil
	})
}

// listingOf is the listing of a version, or nil: only the last two are known.
func (d *dir) listingOf(version uint32) *snapshot {
	for _, s := range []*snapshot{d.snap.Load(), d.before.Load()} {
		if s != nil && s.version == version {
			return s
		}
	}
	return nil
}

// firstEntry is the offset after which the entries follow: "." and ".." come
// first.
const firstEntry = 2

// noHandle refuses to go on with a directory that is not open here.
func (f *FS) noHandle(in *fuse.ReadIn) fuse.Status {
	if !f.journal.Resumes() {
		return fuse.EBADF
	}
	f.log.Warn("a directory changed since it was opened at the daemon before this one: whoever lists it has to begin again", "node", in.NodeId)
	return estale
}

// readDir adds entries from the offset on until there is no room. The entry of
// the tree is 0 for what belongs to no view.
func (f *FS) readDir(in *fuse.ReadIn, addTo func(*dirHandle, fuse.DirEntry, uint32) bool) fuse.Status {
	h := f.dirs.get(dirKey{in.NodeId, in.Fh})
	if h == nil && f.journal.Resumes() {
		h = f.reopen(in.NodeId, in.Fh, in.Offset)
	}
	if h == nil {
		return f.noHandle(in)
	}
	add := func(e fuse.DirEntry, id uint32) bool { return addTo(h, e, id) }
	h.mu.Lock()
	defer h.mu.Unlock()
	if in.Offset == 0 && h.d != nil {
		h.snap = h.d.snap.Load() // rewinddir shows the present state
	}
	version, off := uint32(in.Offset>>32), in.Offset&(1<<32-1)
	if version != 0 && h.snap != nil && version != h.snap.version {
		snap := h.d.listingOf(version)
		if snap == nil {
			f.log.Warn("a directory changed several times while it was listed: whoever lists it has to begin again", "node", in.NodeId)
			return estale
		}
		h.snap = snap
	}
	of := uint64(0) // the listing that offsets are of
	if h.snap != nil {
		of = uint64(h.snap.version) << 32
	}
	if off == 0 && !add(fuse.DirEntry{Name: ".", Mode: unix.S_IFDIR, Ino: h.self, Off: of | 1}, 0) {
		return fuse.OK
	}
	if off <= 1 && !add(fuse.DirEntry{Name: "..", Mode: unix.S_IFDIR, Ino: h.parent, Off: of | 2}, 0) {
		return fuse.OK
	}
	from := max(off, firstEntry) - firstEntry
	if h.d == nil {
		for i := from; i < uint64(len(h.special)); i++ {
			e := h.special[i]
			e.Off = i + firstEntry + 1
			if !add(e, 0) {
				break
			}
		}
		return fuse.OK
	}
	n := f.namesOf(h.v, h.d, h.snap)
	next := of + firstEntry + 1
	for i := from; i < uint64(len(h.snap.ids)); i++ {
		id := h.snap.at(int(i))
		e := fuse.DirEntry{Name: n.listedOf(int(i)), Mode: unix.S_IFREG, Ino: node(h.v.files.index, id), Off: next + i}
		if f.tree.entries.at(id).kind == isDir {
			e.Mode, e.Ino = unix.S_IFDIR, node(h.v.index, id)
		} else if !h.v.original() && !f.reg.IsSample(f.tree.name(id)) {
			e.Ino = node(originalView, id)
		}
		if !add(e, id) {
			break
		}
	}
	return fuse.OK
}
