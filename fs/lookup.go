package fs

import (
	"errors"
	"fmt"
	iofs "io/fs"
	"strings"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/pipefs/pipefs/internal/account"
	"github.com/pipefs/pipefs/internal/serve"
	"github.com/pipefs/pipefs/internal/source"
	"github.com/pipefs/pipefs/transcode"
)

// errAgain: what a name leads to became something else meanwhile.
var errAgain = errors.New("changed while it was looked up")

// Lookup answers what a name leads to.
func (f *FS) Lookup(cancel <-chan struct{}, header *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	if len(name) > maxName {
		return enametoolong
	}
	index, id := splitNode(header.NodeId)
	if index == 0 {
		return f.restrict(f.lookupSpecial(header.NodeId, name, out), &out.Attr, out.SetAttrTimeout)
	}
	v, d := f.views.at(index), f.tree.dir(id)
	if v == nil || d == nil || d.dead.Load() {
		return estale
	}
	v.counters.Lookups.Add(1)
	d.see(v, 0)
	l := lookup{f: f, v: v, d: d, name: name, cancel: cancel, header: header, out: out}
	var err error
	for range 3 {
		if err = l.run(); errors.Is(err, iofs.ErrNotExist) {
			err = l.runDraw()
		}
		if !errors.Is(err, errAgain) && !errors.Is(err, source.ErrChanged) {
			break
		}
	}
	if errors.Is(err, errAgain) {
		err = source.ErrChanged
	}
	if err != nil {
		return f.fail(v, "lookup", join(f.tree.path(id), name), noOffset, err)
	}
	return f.restrict(fuse.OK, &out.Attr, out.SetAttrTimeout)
}

// lookup is one LOOKUP in a view.
type lookup struct {
	f      *FS
	v      *view
	d      *dir
	name   string
	cancel <-chan struct{}
	header *fuse.InHeader
	out    *fuse.EntryOut
	// replaces: it is that of a sample that is tried in the place of another one.
	replaces bool
}

func (l *lookup) run() error {
	id, err := l.find()
	if err != nil {
		return err
	}
	return l.enter(id)
}

// enter describes the entry that the name leads to.
func (l *lookup) enter(id uint32) error {
	events := l.d.events.Load()
	f := l.f
	path := f.tree.path(id)
	var childEvents uint64
	if child := f.tree.looked(id); child != nil {
		childEvents = child.events.Load()
	}
	var spent account.Spent
	lap := spent.Lap()
	a, err := f.look(id, path)
	lap.End(account.Source)
	f.account.Waited(l.header.Pid, l.v.counters, &spent)
	if isGone(err) || err == nil && !f.tree.fits(id, a) {
		// The directory was listed before this was so.
		if _, err := f.refresh(l.d); err != nil || l.replaces {
			return errOr(err, errAgain)
		}
		if again, err := l.find(); err != nil || again != id {
			return errOr(err, errAgain)
		}
		return iofs.ErrNotExist
	}
	if err != nil {
		return err
	}
	if a.Mode.IsDir() {
		f.tree.dir(id).remember(a, childEvents)
		if l.d.events.Load() != events {
			return errAgain // another directory may have the name
		}
		f.noteValidation(l.v, path)
		l.fill(node(l.v.index, id), id, a, a.Size)
		return nil
	}
	id, changed := f.tree.identify(l.d, id, a, events)
	if id == 0 {
		return errAgain
	}
	if changed {
		f.notify.entries(l.d, &change{files: []string{f.tree.name(id)}})
	}
	v := l.v
	draws := v.pipeline.Undrawn() && f.reg.IsSample(path)
	if draws {
		if v, err = f.nextDraw(v, id); err != nil {
			return err
		}
		defer v.release(1) // the reply counts once more
	}
	n, size, err := l.resolve(v, id, serve.File{Path: path, Identity: a.Identity})
	if l.replaceable(err) {
		return l.instead(v, id, err)
	}
	if err != nil {
		return err
	}
	f.bulk.lookedUp(l.d, l.header.Pid)
	l.fill(n, id, a, size)
	if draws {
		l.out.SetEntryTimeout(0)
	}
	return nil
}

func (l *lookup) fill(node uint64, id uint32, a source.Attr, size int64) {
	name, attr := l.f.keeps(l.d, id)
	l.f.fillEntry(l.out, node, a, size)
	l.out.SetEntryTimeout(name)
	l.out.SetAttrTimeout(attr)
}

// look returns the attributes of an entry as they are now. What changes them later is
// told, where that is possible.
func (f *FS) look(id uint32, path string) (source.Attr, error) {
	if f.live != nil && f.tree.entries.at(id).link {
		if _, known := f.tree.known(id); !known {
			f.live.follow(id, path)
		}
	}
	return f.server.Stat(path, false)
}

// find returns the entry that the name leads to, after listing the directory
// again if it is not found.
func (l *lookup) find() (uint32, error) {
	s, err := l.f.listing(l.d)
	if err != nil {
		return 0, err
	}
	n := l.f.namesOf(l.v, l.d, s)
	k := n.find(l.name)
	if k < 0 {
		if n.s, err = l.f.refresh(l.d); err != nil {
			return 0, err
		}
		if n.s != s {
			k = n.find(l.name)
		}
	}
	if k < 0 {
		return 0, iofs.ErrNotExist
	}
	return n.s.at(n.s.position(k)), nil
}

// resolve returns the node and size of a file in the view. What the view shows
// as it is has the node of the view `original`, so that it is cached once.
func (l *lookup) resolve(v *view, id uint32, file serve.File) (uint64, int64, error) {
	f := l.f
	if v.original() {
		return node(originalView, id), file.Identity.Size, nil
	}
	ctx, stop := requestContext(l.cancel, l.header)
	defer stop()
	n := node(v.files.index, id)
	h, err := f.handle(ctx, n, file, v)
	f.waited(ctx, v.counters)
	f.trace.Waited(l.header.Pid, n, &account.Spent{})
	switch {
	case err != nil:
		return 0, 0, err
	case h.Unchanged():
		return node(originalView, id), file.Identity.Size, nil
	}
	return n, h.Size(), nil
}

func errOr(err, otherwise error) error {
	if err != nil {
		return err
	}
	return otherwise
}

// Forget is told of a node that the kernel no longer knows, and how often it had been
// told of it. Nothing is stored for a node of the tree, but its view may go.
func (f *FS) Forget(n, times uint64) {
	index, id := splitNode(n)
	if index == 0 {
		f.root.forget(id, times)
	} else if v := f.views.at(index); v != nil && !v.original() {
		v.release(times)
	}
}

// listing returns a directory's listing, made when it is first asked for, and when names
// of its files depend on what changed.
func (f *FS) listing(d *dir) (*snapshot, error) {
	if s := d.snap.Load(); s != nil && !d.stale.Load() {
		return s, nil
	}
	return f.refresh(d)
}

// refresh lists a directory again if it changed, and tells the kernel what did.
func (f *FS) refresh(d *dir) (*snapshot, error) { return f.refreshUnless(d, nil) }

// refreshUnless is refresh; see [FS.Rescan] for replaced.
func (f *FS) refreshUnless(d *dir, replaced func(path string) bool) (*snapshot, error) {
	s, diff, err := f.tree.refresh(d, replaced)
	if diff != nil {
		if f.live != nil {
			for _, id := range diff.gone {
				f.live.retire(id)
			}
		}
		f.notify.entries(d, diff)
	}
	return s, err
}

// Where a bad sample is replaced, its name leads to the file of another sample of its directory, as
// a second name of that: so the size is right, and what changes in the other sample is noticed as
// under its own name. The kernel keeps no such name: the bad sample may be repaired.

// effort is what resolving a file takes: where bad samples are replaced, it must be known when a
// name is looked up whether the sample can be made.
func (f *FS) effort() serve.Effort {
	if f.server.OnError() == serve.Replace {
		return serve.Verified
	}
	return serve.Sized
}

// instead makes the name of a sample that cannot be made lead to another one.
func (l *lookup) instead(v *view, id uint32, cause error) error {
	f := l.f
	path := f.tree.path(id)
	if err := f.server.Excuse(path, cause); err != nil {
		return err
	}
	if f.roles.MaskOf(path) != "" || len(f.roles.PicturesOf(path)) > 0 {
		return fmt.Errorf("%w; another picture takes its place together with its mask, which only batches do", cause)
	}
	if err := f.server.Replaceable(path); err != nil {
		return fmt.Errorf("%w; no other sample takes its place: %w", cause, err)
	}
	s, err := f.listing(l.d)
	if err != nil {
		return err
	}
	var others []uint32
	for k := range s.ids {
		if other := s.at(s.position(k)); f.tree.entries.at(other).kind != isDir && f.reg.IsSample(f.tree.name(other)) {
			others = append(others, other)
		}
	}
	d, ok := v.pipeline.DrawOf(path)
	if !ok {
		d = transcode.Draw{Path: path}
	}
	of := *l
	of.v, of.replaces = v, true
	for k := range serve.Instead(d, len(others)) {
		if others[k] == id {
			continue
		}
		err := of.enter(others[k])
		if err == nil {
			l.out.SetEntryTimeout(0)
			return nil
		}
		if !serve.IsBad(err) {
			return err
		}
		if err := f.server.Excuse(f.tree.path(others[k]), err); err != nil {
			return err
		}
	}
	return fmt.Errorf("%w; none of the samples that were tried in its place can be made either", cause)
}

// replaceable reports whether an error of looking a sample up makes another one take its place.
func (l *lookup) replaceable(err error) bool {
	return err != nil && !l.replaces && l.f.server.OnError() == serve.Replace && serve.IsBad(err)
}

var errIsDir = errors.New("is a directory: name a file in it")

// Located is a file of a view.
type Located struct {
	View transcode.Pipeline // of a random view, in an epoch
	Key  serve.Key
	File serve.File
	// Opened tells of a random view in the root whether the file was opened. Then View is in the
	// epoch of the last time, otherwise in that of the first.
	Opened bool
}

// Locate finds the file at a path of the mount. Nothing is drawn or made for it.
func (f *FS) Locate(path string) (Located, error) {
	v, rest, err := f.viewOf(path)
	if err != nil {
		return Located{}, err
	}
	defer v.release(1)
	if rest == "" {
		return Located{}, fmt.Errorf("%s is a view: name a file in it", v.name)
	}
	id, _, _, err := f.entry(v, rest)
	if err != nil {
		return Located{}, fmt.Errorf("%s %w", path, err)
	}
	found := Located{File: serve.File{Path: f.tree.path(id)}}
	a, err := f.look(id, found.File.Path)
	if err != nil {
		return Located{}, err
	}
	found.File.Identity = a.Identity
	if p := v.pipeline; p.Undrawn() {
		of := f.counted(v, id)
		v.opensMu.Lock()
		epoch := uint64(v.drawn)
		if int(of) < len(v.opens) && v.opens[of] > 0 {
			epoch, found.Opened = epoch+uint64(v.opens[of])-1, true
		}
		v.opensMu.Unlock()
		drawn, err := f.findDrawn(drawDir{Seed: f.seed, Epoch: epoch}, p.String())
		if err != nil {
			return Located{}, err
		}
		defer drawn.release(1)
		v = drawn
	}
	found.View, found.Key = v.pipeline, node(v.files.index, id)
	return found, nil
}

// entry is the entry of the tree that a path of a view leads to, a file, the directory that it is
// in, and how many events that had had before.
func (f *FS) entry(v *view, path string) (id uint32, in *dir, events uint64, err error) {
	d := f.tree.dir(rootID)
	for name := range strings.SplitSeq(path, "/") {
		if d == nil {
			return 0, nil, 0, iofs.ErrNotExist
		}
		in, events = d, d.events.Load()
		if id, err = (&lookup{f: f, v: v, d: d, name: name}).find(); err != nil {
			return 0, nil, 0, err
		}
		d = f.tree.dir(id)
	}
	if d != nil {
		return 0, nil, 0, errIsDir
	}
	return id, in, events, nil
}
