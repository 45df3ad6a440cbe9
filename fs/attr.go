package fs

import (
	"math"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/serve"
	"github.com/pipefs/pipefs/internal/source"
)

// blockSize is st_blksize: CPython makes its read buffers as large.
const blockSize = 128 << 10

// fillEntry describes what a name leads to, and counts that the kernel knows the
// node, for ever. Size is that in the view.
func (f *FS) fillEntry(out *fuse.EntryOut, node uint64, a source.Attr, size int64) {
	if index, _ := splitNode(node); index != originalView {
		f.views.at(index).hold()
	}
	out.NodeId = node
	fillAttr(&out.Attr, node, a, size)
	out.SetEntryTimeout(forever)
	out.SetAttrTimeout(forever)
}

func fillAttr(out *fuse.Attr, node uint64, a source.Attr, size int64) {
	out.Ino = node
	out.Mode = uint32(a.Mode.Perm()) &^ 0o222
	if a.Mode.IsDir() {
		out.Mode |= unix.S_IFDIR
	} else {
		out.Mode |= unix.S_IFREG
	}
	out.Size = uint64(size)
	out.Blocks = (out.Size + 511) / 512
	out.Blksize = blockSize
	out.Nlink = 1
	out.Uid, out.Gid = a.UID, a.GID
	out.Mtime, out.Mtimensec = split(a.MTime)
	out.Ctime, out.Ctimensec = split(a.CTime)
	out.Atime, out.Atimensec = out.Mtime, out.Mtimensec
}

// split divides ns since 1970 into seconds, possibly negative, and the rest.
func split(ns int64) (sec uint64, nsec uint32) {
	rest := ns % 1e9
	if rest < 0 {
		rest += 1e9
	}
	return uint64((ns - rest) / 1e9), uint32(rest)
}

// GetAttr answers fstat, where the kernel forgot.
func (f *FS) GetAttr(cancel <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	out.SetTimeout(forever)
	index, id := splitNode(in.NodeId)
	if index == 0 {
		return f.restrict(f.getSpecial(in.NodeId, &out.Attr), &out.Attr, out.SetTimeout)
	}
	v := f.views.at(index)
	e := f.tree.entries.at(id)
	if v == nil || e == nil {
		return estale
	}
	if e.kind == isDir {
		d := f.tree.dir(id)
		if d.dead.Load() {
			return estale
		}
		keeps, events := f.keepsDir(d), d.events.Load()
		a, err := f.server.Stat(f.tree.path(id), false)
		if err == nil && !a.Mode.IsDir() {
			err = source.ErrChanged
		}
		if err != nil {
			return f.fail(v, "getattr", f.tree.path(id), noOffset, err)
		}
		d.remember(a, events)
		out.SetTimeout(keeps)
		fillAttr(&out.Attr, in.NodeId, a, a.Size)
		return fuse.OK
	}
	a, ok := f.tree.known(id)
	if !ok {
		return estale
	}
	size := a.Size
	if !v.original() {
		file := f.file(id, a)
		ctx, stop := requestContext(cancel, &in.InHeader)
		h, err := f.handle(ctx, in.NodeId, file, v)
		stop()
		if err != nil {
			return f.lost(v, id, "getattr", file.Path, noOffset, err)
		}
		size = h.Size()
	}
	fillAttr(&out.Attr, in.NodeId, a, size)
	return fuse.OK
}

func (f *FS) getSpecial(n uint64, out *fuse.Attr) fuse.Status {
	if n < firstSpecial {
		f.root.dirAttr(n, out)
		return fuse.OK
	}
	s := f.root.special(uint32(n))
	if s == nil {
		return estale
	}
	f.root.attr(s, out)
	return fuse.OK
}

// file names an entry to the server.
func (f *FS) file(id uint32, a source.Attr) serve.File {
	return serve.File{Path: f.tree.path(id), Identity: a.Identity}
}

// StatFs answers statfs: a file system that is full, as it cannot be written to.
func (f *FS) StatFs(_ <-chan struct{}, _ *fuse.InHeader, out *fuse.StatfsOut) fuse.Status {
	out.Bsize, out.Frsize = 4096, 4096
	out.Blocks = uint64(f.tree.bytes.Load())/4096 + 1
	out.Files = uint64(f.tree.entries.count())
	out.NameLen = maxName
	return fuse.OK
}

// Freshness says how a mount learns what changes in the dataset. It holds for the
// whole mount: the kernel asks for opens everywhere or nowhere.
type Freshness uint8

// The kinds of freshness.
const (
	// Immutable: nothing changes. The kernel keeps names and attributes for ever and
	// does not ask when a file is opened. A change that is noticed all the same, since a
	// directory is opened or a file has to be read, is told to the kernel.
	Immutable Freshness = iota
	// Watched: the kernel keeps names and attributes for ever, does not ask when a file
	// is opened, and is told what Options.Watcher sees. Where a directory cannot be
	// watched, and for files that are no samples, names and attributes expire.
	Watched
	// Checked: names and attributes expire, and each open compares the file with what
	// was looked up.
	Checked
)

func (f Freshness) String() string {
	return [...]string{"immutable", "watched", "checked"}[f]
}

// forever is the timeout of names and attributes of which the kernel is told when they
// change; briefly of those where it is not.
const (
	forever = time.Duration(math.MaxInt64)
	briefly = time.Second
)

// keeps is how long the kernel may keep the name of an entry in a directory, and its
// attributes.
func (f *FS) keeps(d *dir, id uint32) (name, attr time.Duration) {
	if f.expire {
		defer func() { name = briefly }()
	}
	switch f.fresh {
	case Immutable:
		return forever, forever
	case Checked:
		return briefly, briefly
	}
	e := f.tree.entries.at(id)
	if !d.watched.Load() || e.link && f.live.loose(id) {
		return briefly, briefly
	}
	if e.kind == isDir {
		return forever, f.keepsDir(f.tree.dir(id))
	}
	// Labels are few, and a user who edits them looks at once.
	if !f.reg.IsSample(f.tree.name(id)) {
		return briefly, briefly
	}
	return forever, forever
}

// keepsDir is how long the kernel may keep the attributes of a directory.
func (f *FS) keepsDir(d *dir) time.Duration {
	if f.fresh == Immutable || f.fresh == Watched && d.watched.Load() {
		return forever
	}
	return briefly
}
