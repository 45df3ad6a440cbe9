package fs

import (
	"strings"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/source"
)

// readers are the users who may read each of several files of the dataset.
type readers struct {
	f     *FS
	added map[string]bool // paths
	owner source.Attr     // of the first file
	mode  uint32          // what all files permit
	mixed bool            // owners or groups differ, or attributes are unknown
}

// add adds a file, or a directory: who lists and searches it may read its names.
func (r *readers) add(a source.Attr, err error) {
	if len(r.added) == 1 {
		r.owner = a
	}
	perm := uint32(a.Mode.Perm())
	if r.mode &= perm; a.Mode.IsDir() {
		r.mode &= perm << 2
	}
	r.mixed = r.mixed || err != nil || a.UID != r.owner.UID || a.GID != r.owner.GID
}

// addPath adds a file or directory, and those above it.
func (r *readers) addPath(name string) {
	for ; !r.added[name]; name = name[:max(0, strings.LastIndexByte(name, '/'))] {
		r.added[name] = true
		r.add(r.f.server.Stat(name, false))
	}
}

// restrict hides a file that is made of the dataset from users who may not read what it is made
// of. Its bytes do not depend on who asks: the kernel has them once for all users, and checks the
// mode. One mode cannot stand for several owners; then the file is for the user who mounted.
func (f *FS) restrict(status fuse.Status, out *fuse.Attr, keep func(time.Duration)) fuse.Status {
	index, id := splitNode(out.Ino)
	if !status.Ok() || index != 0 {
		return status
	}
	keep(forever)
	if !f.others || id < firstSpecial {
		return status
	}
	s := f.root.special(id)
	r := readers{f: f, added: map[string]bool{}, mode: 0o444}
	switch {
	case s == nil:
	case s.sample != 0:
		r.addPath(f.tree.path(s.sample))
	case s.batch != nil:
		view := s.batch.View()
		if of := view.Path().Of; !view.Given() {
			r.addPath(of)
		} else {
			r.added[of] = true
			r.add(view.Stat())
		}
		for sample := range s.batch.Samples {
			r.addPath(sample)
		}
	case s.epoch != nil && s.epoch.view != nil && !s.epoch.view.Given():
		r.addPath(s.epoch.view.Path().Of)
	case strings.HasSuffix(s.name, listSuffix) && s.epoch == nil:
		err := f.eachDir(f.tree.dir(rootID), func(d *dir) { r.addPath(f.tree.path(d.id)) })
		r.mixed = r.mixed || err != nil
	}
	if len(r.added) == 0 {
		return status
	}
	keep(briefly) // of a change in the dataset the kernel is not told
	if !r.mixed {
		out.Uid, out.Gid = r.owner.UID, r.owner.GID
	} else if r.mode != 0o444 {
		r.mode = 0o400
	}
	if out.Mode&unix.S_IFMT == unix.S_IFDIR {
		r.mode |= r.mode >> 2
	}
	out.Mode = out.Mode&unix.S_IFMT | r.mode
	return status
}
