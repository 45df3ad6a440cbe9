package fs

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/epoch"
	"github.com/pipefs/pipefs/internal/source"
)

// special is one version of a link or file. It never changes; the data of a file can be
// dropped and made again.
type special struct {
	node   uint64
	target string      // of a link; a file has none
	draw   *drawDir    // of a directory of .draw
	epoch  *epochDir   // of a directory of .epoch
	batch  *epoch.File // of a file below .epoch
	asked  *asked      // of a file of batches that are asked for
	fixed  []byte      // of a file that is not made again
	sample uint32      // whose draw it tells
	refs   uint64      // how often the kernel was told of it, if it goes when that is over
	mtime  time.Time

	name string
	size int
	sum  []byte
	// version of the tree that a list shows; later ones may be the same
	version uint64
}

// sumOf tells whether data that was made again, by any daemon, is the same.
func sumOf(data []byte) []byte {
	sum := sha256.Sum256(data)
	return sum[:]
}

// add gives a node out. The caller holds mu or is alone.
func (r *root) add(s special) *special {
	if r.next >= r.journaled {
		r.journaled = r.next + reserved
		r.journal.number(recordReserve, r.journaled)
	}
	s.node, s.mtime = node(0, r.next), time.Now()
	r.nodes[r.next] = &s
	r.next++
	return &s
}

// reserved is how many numbers a record of the journal reserves. What is made for one
// reader and forgotten has no other record.
const reserved = 1024

// note writes down what was added, for the next daemon.
func (r *root) note(s *special, as specialRecord) {
	as.ID, as.Made = uint32(s.node), s.mtime
	r.journal.writeJSON(recordSpecial, as)
}

func (r *root) special(id uint32) *special {
	r.mu.Lock()
	s := r.nodes[id]
	r.mu.Unlock()
	if s == nil && r.again != nil {
		return r.again(id)
	}
	return s
}

// lookupFile is LOOKUP of a file that is made when it is asked for. It gets a
// new node when it changed.
func (f *FS) lookupFile(name string, version uint64, remake func() ([]byte, error), out *fuse.EntryOut) fuse.Status {
	data, err := remake()
	if err != nil {
		return f.fail(f.views.at(originalView), "lookup", belowMount(name), noOffset, err)
	}
	r := f.root
	r.mu.Lock()
	defer r.mu.Unlock()
	sum := sumOf(data)
	s := r.newest[name]
	if s == nil || !bytes.Equal(s.sum, sum) || s.size != len(data) {
		s = r.add(special{name: name, size: len(data), sum: sum})
		r.note(s, specialRecord{File: name, Size: s.size, Sum: sum})
		r.newest[name] = s
	}
	s.version = version
	r.data.Put(s.node, data, int64(len(data)))
	// Asked again each time: only so can a change be noticed.
	r.fill(out, s, 0)
	return fuse.OK
}

// content returns the data of a file, made again if it was dropped.
func (f *FS) content(s *special) ([]byte, error) {
	if s.fixed != nil {
		return s.fixed, nil
	}
	r := f.root
	r.mu.Lock()
	data, there := r.data.Get(s.node)
	r.mu.Unlock()
	if there || s.size == 0 {
		return data, nil
	}
	remake := r.files[s.name]
	if remake == nil {
		v, err := f.view(strings.TrimSuffix(s.name, listSuffix))
		if err != nil {
			return nil, err
		}
		remake = func() ([]byte, error) { return f.list(v) }
	}
	data, err := remake()
	if err != nil {
		return nil, err
	}
	if len(data) != s.size || !bytes.Equal(sumOf(data), s.sum) {
		return nil, fmt.Errorf("%s: %w", s.name, source.ErrChanged)
	}
	r.mu.Lock()
	r.data.Put(s.node, data, int64(len(data)))
	r.mu.Unlock()
	return data, nil
}

// fill describes a link or file.
func (r *root) fill(out *fuse.EntryOut, s *special, timeout time.Duration) {
	out.NodeId = s.node
	r.attr(s, &out.Attr)
	out.SetEntryTimeout(timeout)
}

func (r *root) attr(s *special, a *fuse.Attr) {
	a.Mode, a.Size = unix.S_IFREG|0o444, uint64(s.size)
	switch {
	case s.target != "":
		a.Mode, a.Size = unix.S_IFLNK|0o777, uint64(len(s.target))
	case s.draw != nil, s.epoch != nil:
		a.Mode = unix.S_IFDIR | 0o555
	}
	ours(a, s.node, s.mtime)
}

// fillDir describes a directory that belongs to no view.
func (f *FS) fillDir(out *fuse.EntryOut, node uint64) {
	out.NodeId = node
	f.root.dirAttr(node, &out.Attr)
	out.SetEntryTimeout(forever)
}

func (r *root) dirAttr(node uint64, a *fuse.Attr) {
	a.Mode = unix.S_IFDIR | 0o555
	ours(a, node, r.made)
}

// ours completes the attributes of what belongs to the daemon.
func ours(a *fuse.Attr, node uint64, t time.Time) {
	a.Ino, a.Nlink, a.Blksize = node, 1, blockSize
	a.Blocks = (a.Size + 511) / 512
	a.SetTimes(&t, &t, &t)
	a.Uid, a.Gid = uint32(os.Getuid()), uint32(os.Getgid())
}
