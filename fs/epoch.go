package fs

import (
	"context"
	"errors"
	iofs "io/fs"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/epoch"
	"github.com/pipefs/pipefs/transcode"
)

// Epoch views are directories below .epoch/SEED/EPOCH/WORLD/RANK/BATCH/VIEW, and below that
// directories of the dataset. None of them has to be made before it is entered, and none
// is listed; a view lists its files. What they hold is the business of package epoch.

// epochDir is a directory below .epoch.
type epochDir struct {
	parts []string    // of its path
	view  *epoch.View // nil of directories of numbers
}

// lookupEpoch is LOOKUP in .epoch and below.
func (f *FS) lookupEpoch(parent uint64, name string, out *fuse.EntryOut) fuse.Status {
	d := &epochDir{}
	if parent != epochNode {
		s := f.root.special(uint32(parent))
		if s == nil || s.epoch == nil {
			return fuse.ENOENT
		}
		d = s.epoch
	}
	parts := append(d.parts[:len(d.parts):len(d.parts)], name)
	key := strings.Join(parts, "/")
	if d.view != nil {
		file, err := d.view.File(name)
		if err == nil {
			timeout := forever
			if name == epoch.IndexName {
				timeout = 0 // it tells whether the dataset has changed
			}
			f.root.fillPath(key, special{batch: file, size: int(file.Size())}, timeout, out, func(s *special) { f.journal.batch(s, uint32(parent), name) })
			return fuse.OK
		}
		if !errors.Is(err, iofs.ErrNotExist) {
			return f.failEpoch(d.view, name, "lookup", noOffset, err)
		}
	}
	entered, err := f.enterEpoch(parts)
	if err != nil {
		f.failures.keep(path.Join(epoch.Dir, key), err)
		var table *epoch.TableError
		switch {
		case errors.As(err, &table):
			f.failedEpoch(key, "lookup", noOffset, err)
			return fuse.EINVAL
		case !errors.Is(err, iofs.ErrNotExist):
			f.explain(parts[len(parts)-1], err)
		}
		return fuse.ENOENT
	}
	timeout := forever
	if entered.view != nil {
		timeout = 0 // it is another one when the dataset has changed
	}
	f.root.fillPath(key, special{epoch: entered}, timeout, out, func(s *special) { f.root.note(s, specialRecord{Epoch: key, Digest: entered.digest()}) })
	return fuse.OK
}

// enterEpoch returns a directory.
func (f *FS) enterEpoch(parts []string) (*epochDir, error) {
	p, err := epoch.ParsePath(parts)
	if err != nil || !epoch.Complete(parts) {
		return &epochDir{parts: parts}, err
	}
	pipeline, err := f.reg.ParseRandom(p.View)
	switch {
	case err != nil:
		return nil, err
	case pipeline.Random():
		pipeline = pipeline.In(p.Seed, p.Epoch)
	}
	if f.refuse != nil {
		if err := f.refuse(pipeline); err != nil {
			return nil, err
		}
	}
	v, err := f.epochs.Find(p, pipeline)
	return &epochDir{parts: parts, view: v}, err
}

// fillPath describes what a path below .draw or .epoch leads to. It has the node that it had
// before, unless it is something else by now; then it is noted.
func (r *root) fillPath(key string, now special, timeout time.Duration, out *fuse.EntryOut, note func(*special)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.paths[key]
	if s == nil || !s.same(&now) {
		now.name = key
		s = r.add(now)
		note(s)
		r.paths[key] = s
	}
	s.refs++
	r.fill(out, s, timeout)
}

func (s *special) same(now *special) bool {
	switch {
	case now.draw != nil, now.asked != nil:
		return true
	case now.batch != nil:
		return s.batch != nil && s.batch.Same(now.batch)
	default:
		return s.epoch != nil && s.epoch.view == now.epoch.view
	}
}

// list lists the files of an epoch view.
func (d *epochDir) list(entries []fuse.DirEntry) []fuse.DirEntry {
	if d.view != nil {
		for name := range d.view.Names {
			entries = append(entries, fuse.DirEntry{Name: name, Mode: unix.S_IFREG})
		}
	}
	return entries
}

// pieces are answers to reads of batches, from where these lie.
var pieces = sync.Pool{New: func() any { return new(pieceReply) }}

// pieceReply is the answer to a READ of a file of an epoch view.
type pieceReply struct {
	piece  epoch.Piece
	slices [1][]byte
}

// Slices implements go-fuse's interface for what is sent from where it lies.
func (r *pieceReply) Slices() ([][]byte, fuse.Status) { return r.slices[:], fuse.OK }

// Bytes implements [fuse.ReadResult].
func (r *pieceReply) Bytes(buf []byte) ([]byte, fuse.Status) {
	return append(buf[:0], r.slices[0]...), fuse.OK
}

// Size implements [fuse.ReadResult].
func (r *pieceReply) Size() int { return len(r.slices[0]) }

// Done implements [fuse.ReadResult].
func (r *pieceReply) Done() {
	r.piece.Release()
	*r = pieceReply{}
	pieces.Put(r)
}

func (f *FS) readEpoch(cancel <-chan struct{}, in *fuse.ReadIn, file *epoch.File, n int) (fuse.ReadResult, fuse.Status) {
	ctx, stop := requestContext(cancel, &in.InHeader)
	defer stop()
	p, err := file.Read(ctx, int64(in.Offset), n)
	f.waited(ctx, f.countersOf(file))
	if err != nil {
		return nil, f.failEpoch(file.View(), file.Name(), "read", int64(in.Offset), err)
	}
	if len(p.Bytes) == 0 {
		return newResult(0), fuse.OK
	}
	if c := f.countersOf(file); c != nil && in.Offset == 0 {
		c.Begun.Add(1)
	}
	r := pieces.Get().(*pieceReply)
	r.piece, r.slices[0] = p, p.Bytes
	return r, fuse.OK
}

// failEpoch is fail for a file of an epoch view.
func (f *FS) failEpoch(v *epoch.View, name, op string, off int64, err error) fuse.Status {
	status := errno(err)
	if status == fuse.EINTR || errors.Is(err, context.Canceled) {
		return fuse.EINTR
	}
	f.failures.keep(path.Join(v.Name(), name), err)
	f.failedEpoch(v.Name(), op, off, err)
	return status
}

// failedEpoch logs why there is an error below .epoch.
func (f *FS) failedEpoch(path, op string, off int64, err error) {
	if times, tell := f.failures.count(failure{path, "", err.Error()}, time.Now()); tell {
		args := []any{"op", op, "view", path, "cause", err}
		if off != noOffset {
			args = append(args, "offset", off)
		}
		if times > 1 {
			args = append(args, "times", times)
		}
		f.log.Error("I/O error", args...)
	}
}

// inEpoch reports whether a node is a directory below .epoch.
func (r *root) inEpoch(n uint64) bool {
	s := r.special(uint32(n))
	return s != nil && s.epoch != nil
}

// epochTree is the tree as package epoch wants it.
type epochTree struct{ f *FS }

// Version implements [epoch.Tree].
func (t epochTree) Version() (uint64, error) { return t.f.freshen() }

// Members implements [epoch.Tree].
func (t epochTree) Members(path string) (members []epoch.Member, err error) {
	f := t.f
	d := f.tree.dir(rootID)
	for path != "" {
		var name string
		name, path, _ = strings.Cut(path, "/")
		s, err := f.listing(d)
		if err != nil {
			return nil, err
		}
		k := f.tree.search(s, name)
		if k == len(s.ids) || f.tree.nameAt(s, k) != name || f.tree.entries.at(s.at(s.position(k))).kind != isDir {
			return nil, iofs.ErrNotExist
		}
		d = f.tree.dir(s.at(s.position(k)))
	}
	s, err := f.listing(d)
	if err != nil {
		return nil, err
	}
	members = make([]epoch.Member, len(s.ids))
	for k := range members {
		id := s.at(s.position(k))
		members[k] = epoch.Member{Name: f.tree.name(id), ID: id, Dir: f.tree.entries.at(id).kind == isDir}
	}
	return members, nil
}

// Path implements [epoch.Tree].
func (t epochTree) Path(id uint32) string { return t.f.tree.path(id) }

// Listed implements [epoch.Tree].
func (t epochTree) Listed(p transcode.Pipeline, path string) (string, error) {
	return t.f.Listed(p, path)
}

// pastEpochs are the directories and files below .epoch that daemons before this one have
// shown. Each is found again when the kernel asks for it.
type pastEpochs struct {
	f     *FS
	dirs  map[uint32]specialRecord
	files map[uint32]pastBatch
}

// digest is that of the epoch view, empty of a directory of numbers.
func (d *epochDir) digest() string {
	if d.view == nil {
		return ""
	}
	return d.view.Digest()
}

// find returns what a number stands for, nil where that is gone.
func (e *pastEpochs) find(id uint32) *special {
	if was, ok := e.dirs[id]; ok {
		d := e.dir(was)
		if d == nil {
			return nil
		}
		return e.restore(id, was.Epoch, special{epoch: d})
	}
	was, ok := e.files[id]
	if !ok {
		return nil
	}
	in := e.f.root.special(was.dir)
	if in == nil || in.epoch == nil || in.epoch.view == nil {
		return nil
	}
	file, err := in.epoch.view.File(was.name)
	if err != nil || uint64(file.Size()) != was.size {
		e.lost(path.Join(in.name, was.name), err)
		return nil
	}
	return e.restore(id, path.Join(in.name, was.name), special{batch: file, size: int(was.size)})
}

// dir enters a directory again.
func (e *pastEpochs) dir(was specialRecord) *epochDir {
	if e.f.epochs == nil {
		return nil
	}
	d, err := e.f.enterEpoch(strings.Split(was.Epoch, "/"))
	if err != nil || d.digest() != was.Digest {
		e.lost(was.Epoch, err)
		return nil
	}
	return d
}

func (e *pastEpochs) lost(path string, err error) {
	e.f.log.Warn("what is open there cannot be read further: the dataset has changed since the daemon before this one", "path", epoch.Dir+"/"+path, "cause", err)
}

// restore gives it its number.
func (e *pastEpochs) restore(id uint32, key string, s special) *special {
	r := e.f.root
	r.mu.Lock()
	defer r.mu.Unlock()
	if there := r.nodes[id]; there != nil {
		return there
	}
	s.node, s.mtime, s.name, s.refs = node(0, id), r.made, key, manyRefs
	r.nodes[id] = &s
	if r.paths[key] == nil {
		r.paths[key] = &s
	}
	return &s
}
