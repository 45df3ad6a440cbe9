package fs

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/serve"
)

// bulk decides whether listings come with attributes. Reading them costs as much as
// listing, several times over, so a program that only wants names must not pay for
// them. But one that lists a directory and then looks up its files will do the same
// in the next directory: `find -size`, `ls -l`, a loader that asks for each size. A
// reply that holds attributes saves it a request for each file.
type bulk struct {
	until atomic.Int64 // ns since 1970
}

const (
	// bulkLookups is how many files a thread looks up after it listed their
	// directory, before it is taken to want them all.
	bulkLookups = 16
	// bulkTime is how long that is believed. With attributes in the listings there
	// are no lookups to see it from.
	bulkTime = 10 * time.Second
)

// listedBy notes which thread lists a directory.
func (d *dir) listedBy(pid uint32) {
	d.lister.Store(pid)
	d.lookups.Store(0)
}

// lookedUp notes that a thread looked up a file of a directory.
func (b *bulk) lookedUp(d *dir, pid uint32) {
	if d.lister.Load() == pid && d.lookups.Add(1)%bulkLookups == 0 {
		b.until.Store(time.Now().Add(bulkTime).UnixNano())
	}
}

func (b *bulk) wanted() bool { return time.Now().UnixNano() < b.until.Load() }

// fillListed adds attributes to an entry of a listing if they are known for sure, or
// wanted. Where it does not, the node stays 0, and the kernel asks when it has to.
func (f *FS) fillListed(out *fuse.EntryOut, h *dirHandle, e fuse.DirEntry, id uint32, wanted bool) {
	index, _ := splitNode(e.Ino)
	made := index != originalView && e.Mode != unix.S_IFDIR
	if made && (!wanted || h.v.pipeline.Undrawn() || f.effort() == serve.Verified) {
		return // its size may take time, or the name leads elsewhere
	}
	name, attr := f.keeps(h.d, id)
	events := h.d.events.Load()
	a, ok := f.tree.known(id)
	ok = ok && name == forever && attr == forever && h.snap == h.d.snap.Load()
	if !ok && wanted && e.Mode != unix.S_IFDIR {
		var err error
		if a, err = f.look(id, f.tree.path(id)); err == nil && f.tree.fits(id, a) {
			now, _ := f.tree.identify(h.d, id, a, events)
			ok = now == id
		}
	}
	if !ok {
		return
	}
	n, size := e.Ino, a.Size
	if made {
		found, err := f.server.Resolve(context.Background(), n, f.file(id, a), h.v.pipeline, serve.Stored)
		if err != nil {
			return
		}
		if size = found.Size(); found.Unchanged() {
			n = node(originalView, id)
		}
	}
	f.fillEntry(out, n, a, size)
	out.SetEntryTimeout(name)
	out.SetAttrTimeout(attr)
}
