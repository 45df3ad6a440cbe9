package fs

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/fs/conn"
	"github.com/pipefs/pipefs/internal/source"
	"github.com/pipefs/pipefs/transcode"
)

// manyRefs is what a view counts that a daemon before this one entered: how many nodes of
// it the kernel knows died with that daemon, so that it stays until the mount ends.
const manyRefs = 1 << 40

// resume begins a journal, or restores what daemons before this one wrote there. Nobody
// else uses f yet.
func (f *FS) resume(o Options) error {
	j := o.Journal
	r := f.root
	if j == nil {
		r.addControl(o.Control)
		return nil
	}
	j.log = f.log
	p := j.past
	if p != nil {
		j.past = &past{began: p.began, handshake: p.handshake} // the rest is garbage soon
		if Freshness(p.first.Freshness) != f.fresh || p.first.Cache != f.mode {
			return fmt.Errorf("fs: the mount was begun as %v with --cache %v and cannot go on as %v with %v", Freshness(p.first.Freshness), p.first.Cache, f.fresh, f.mode)
		}
		r.made, f.seed = p.first.Made, p.first.Seed
		f.restoreTree(p)
		f.restoreViews(p)
		f.restoreRoot(p)
	}
	f.journal, f.tree.journal, r.journal = j, j, j
	if p != nil {
		f.resumeSuspects(p, o.Suspects)
	}
	j.writeJSON(recordBegin, beginning{Version: JournalVersion, Freshness: uint8(f.fresh), Cache: f.mode, Seed: f.seed, Made: r.made})
	f.views.noted = func(v *view) { j.view(v, f.reg.Digest(v.pipeline)) }
	f.views.left = func(index uint32) { j.number(recordForgot, index) }
	f.dirs.next = uint64(j.began) << 20 & (1<<32 - 1)
	if r.control == nil {
		r.addControl(o.Control)
	}
	return nil
}

func (r *root) addControl(target string) {
	if target != "" {
		r.control = r.add(special{target: target})
		r.note(r.control, specialRecord{Control: true, Target: target})
	}
}

// restoreTree makes the entries and listings that were. The directories are looked
// through later: see lookAgain.
func (f *FS) restoreTree(p *past) {
	t := f.tree
	var names strings.Builder
	var blob []entry // what has its name in names
	finish := func() {
		at := t.blobs.add(names.String())
		for _, e := range blob {
			e.blob = at
			t.entries.add(e)
		}
		names, blob = strings.Builder{}, blob[:0]
	}
	const most = 1 << 20 // bytes of names in a blob
	for id := rootID + 1; id < len(p.entries); id++ {
		was := p.entries[id]
		e := entry{dir: was.dir, off: uint32(names.Len()), len: was.len, kind: was.kind, link: was.link}
		if was.attr != 0 && p.attrs[was.attr] != (source.Attr{}) { // else it was disowned
			e.attr = t.record(p.attrs[was.attr])
		}
		names.Write(p.names[was.off:][:was.len])
		if blob = append(blob, e); names.Len() > most {
			finish()
		}
	}
	finish()
	alive := map[uint32]bool{rootID: true}
	for id, s := range p.listings {
		if t.entries.at(id) == nil || t.entries.at(id).kind != isDir || !t.sort(s) {
			continue // a record is missing
		}
		d := t.dir(id)
		d.snap.Store(s)
		d.stale.Store(f.fresh == Watched)
		f.resumed = append(f.resumed, id)
		for _, member := range s.ids {
			alive[member] = true
		}
	}
	slices.Sort(f.resumed) // those above come before those below
	for _, id := range f.resumed {
		t.dir(id).dead.Store(!alive[id])
	}
	f.gaveWay = map[uint32][]uint32{}
	for id := rootID + 1; id < len(p.entries); id++ {
		if !alive[uint32(id)] {
			f.gaveWay[p.entries[id].dir] = append(f.gaveWay[p.entries[id].dir], uint32(id))
		}
	}
}

// withGone is the change by which a directory lost entries that gave way to others, or to none.
func (t *tree) withGone(d *dir, gone []uint32) *change {
	now := d.snap.Load()
	c := &change{old: &snapshot{ids: make([]uint32, len(now.ids))}, new: now}
	for i := range now.ids {
		c.old.ids[i] = now.at(i) // readers give others their places meanwhile
	}
	known := map[string]bool{}
	for _, id := range gone {
		name := t.name(id)
		if known[name] {
			continue
		}
		known[name] = true
		c.names = append(c.names, name)
		if k := t.search(now, name); k == len(now.ids) || t.nameAt(now, k) != name {
			c.old.ids = append(c.old.ids, id)
		}
	}
	t.sort(c.old)
	return c
}

// sort finds the order of names of a listing, and reports whether all its entries are there.
func (t *tree) sort(s *snapshot) bool {
	for _, id := range s.ids {
		if t.entries.at(id) == nil {
			return false
		}
	}
	order := func(i, j int) bool { return t.name(s.ids[i]) < t.name(s.ids[j]) }
	if sort.SliceIsSorted(s.ids, order) {
		return true
	}
	s.sorted = make([]uint32, len(s.ids))
	for i := range s.sorted {
		s.sorted[i] = uint32(i)
	}
	sort.Slice(s.sorted, func(i, j int) bool { return order(int(s.sorted[i]), int(s.sorted[j])) })
	return true
}

// restoreViews makes the views that were entered and not forgotten. One whose files this
// program would make otherwise is left out: whoever has one open gets ESTALE.
func (f *FS) restoreViews(p *past) {
	vs := f.views
	for _, was := range p.views {
		pipeline, err := f.reg.ParsePath(was.Path)
		if err == nil && f.reg.Digest(pipeline) != was.Digest {
			err = fmt.Errorf("this version of pipefs makes it otherwise")
		}
		if whole := pipeline.Whole(); err == nil && whole.Path() != pipeline.Path() && vs.byName[whole.Path()] == nil {
			err = fmt.Errorf("the view that its files are of, %s, is not there", whole.Path())
		}
		if err != nil {
			f.log.Warn("files of this view that are open cannot be read further", "view", was.Path, "cause", err)
			f.lostViews = append(f.lostViews, was.Path)
			continue
		}
		vs.next = was.Index
		v := vs.insert(pipeline)
		v.refs.Store(manyRefs)
		if draw, ok := pipeline.DrawOf(""); ok && draw.Seed == f.seed {
			if vs.epochs == nil {
				vs.epochs = map[string]uint32{}
			}
			spec := pipeline.String()
			vs.epochs[spec] = max(vs.epochs[spec], uint32(draw.Epoch)+1)
		}
	}
	vs.next = max(p.nextView, vs.next)
	all := vs.all()
	for _, v := range all {
		if v.pipeline.Undrawn() {
			v.drawn = vs.epochs[v.pipeline.String()]
		}
	}
	// What the kernel knows of which view died with who told it.
	for _, id := range f.resumed {
		d := f.tree.dir(id)
		for _, v := range all {
			d.seen = append(d.seen, viewSeen{view: v.index})
		}
	}
}

// restoreRoot makes the links and files beside the views.
func (f *FS) restoreRoot(p *past) {
	r := f.root
	e := &pastEpochs{f: f, dirs: map[uint32]specialRecord{}, files: p.batches}
	r.again = e.find
	for _, was := range p.specials {
		if was.Epoch != "" {
			e.dirs[was.ID] = was
			continue
		}
		s := &special{node: node(0, was.ID), target: was.Target, draw: was.Draw, name: was.File, size: was.Size, sum: was.Sum, mtime: was.Made}
		r.nodes[was.ID] = s
		switch {
		case was.Control:
			r.control = s
		case was.Draw != nil:
			s.refs, s.name = manyRefs, was.Draw.path()
			r.paths[s.name] = s
		case was.File != "":
			r.newest[was.File] = s
		case was.Link != "":
			i := r.link(was.Link)
			if i < 0 {
				i = len(r.links)
				r.links = append(r.links, link{name: was.Link})
			}
			r.links[i].to = s
		}
	}
	r.next = max(r.next, p.next)
	r.journaled = r.next
}

// Resends reports whether this kernel sends requests again that a daemon that died did not
// answer: from Linux 6.9 on.
func Resends() bool {
	var u unix.Utsname
	var major, minor int
	if unix.Uname(&u) != nil {
		return false
	}
	_, err := fmt.Sscanf(unix.ByteSliceToString(u.Release[:]), "%d.%d", &major, &minor)
	return err == nil && (major > 6 || major == 6 && minor >= 9)
}

// resend asks for the requests that the daemon before this one took and did not answer.
func (f *FS) resend(c *conn.Conn) {
	if c.Agreed()&fuse.CAP_HAS_RESEND == 0 {
		return // then that one had answered all: see Resends
	}
	if status := c.ResendNotify(); !status.Ok() {
		f.log.Warn("the kernel does not send again what the daemon before this one did not answer: who reads that waits until it is killed", "cause", status)
	}
}

// lookAgain finds out what changed while nobody watched, and tells the kernel. Until it
// has come to a directory, its files may be shown from the kernel's cache as they were.
func (f *FS) lookAgain(stop <-chan struct{}) {
	resumed, gaveWay := f.resumed, f.gaveWay
	f.resumed, f.gaveWay = nil, nil
	began := time.Now()
	for _, path := range f.lostViews {
		if !strings.Contains(path, "/") {
			if s := f.kernel.Load(); s != nil {
				f.forgetName(s, rootNode, path)
			}
		}
	}
	if f.fresh == Immutable || len(resumed) == 0 {
		return
	}
	below := map[uint32][]uint32{} // by the directory above
	for _, id := range resumed {
		select {
		case <-stop:
			return
		default:
		}
		if d := f.tree.dir(id); !d.dead.Load() {
			f.followAgain(d)
			_, _ = f.refresh(d) // where it fails, so does what asks next
			if gone := gaveWay[id]; len(gone) > 0 {
				// The daemon before this one may have died between knowing it and telling it.
				f.notify.entries(d, f.tree.withGone(d, gone))
			}
		}
		if id != rootID {
			above := f.tree.entries.at(id).dir
			below[above] = append(below[above], id)
		}
	}
	f.notify.entries(f.tree.dir(rootID), &change{listing: true})
	for above, ids := range below {
		f.notify.entries(f.tree.dir(above), &change{dirs: ids})
	}
	f.log.Info("looked for changes since the daemon before this one ended", "directories", len(resumed), "seconds", time.Since(began).Seconds())
}

// followAgain watches what the links of a directory stand for that were looked at.
func (f *FS) followAgain(d *dir) {
	s := d.snap.Load()
	for i := 0; f.live != nil && s != nil && i < len(s.ids); i++ {
		id := s.at(i)
		if e := f.tree.entries.at(id); e.link && atomic.LoadUint32(&e.attr) != 0 {
			f.live.follow(id, f.tree.path(id))
		}
	}
}

// reopen makes the handle of a directory that was opened at a daemon before this one. It
// is nil where the listing that it shows is gone; from the beginning any will do.
func (f *FS) reopen(n, fh, off uint64) *dirHandle {
	version := cmp.Or(uint32(off>>32), uint32(fh>>32))
	index, id := splitNode(n)
	h := &dirHandle{self: n, parent: rootNode}
	if index == 0 {
		if h.special = f.listSpecial(n); len(h.special) != int(version) && off > 0 {
			return nil
		}
	} else {
		h.v, h.d = f.views.at(index), f.tree.dir(id)
		if h.v == nil || h.d == nil || h.d.dead.Load() {
			return nil
		}
		var err error
		if h.snap, err = f.listing(h.d); err != nil || h.snap.version != version && off > 0 {
			return nil
		}
		if id != rootID {
			h.parent = node(index, f.tree.entries.at(id).dir)
		}
	}
	f.dirs.mu.Lock()
	defer f.dirs.mu.Unlock()
	key := dirKey{n, fh}
	f.dirs.open[key] = cmp.Or(f.dirs.open[key], h)
	return f.dirs.open[key]
}

// epochsOf is the first epoch of a random view that no daemon before this one has shown.
func (vs *views) epochsOf(p transcode.Pipeline) uint32 {
	if !p.Undrawn() {
		return 0
	}
	return vs.epochs[p.String()]
}

// suspects are the requests that were in flight when daemons of this mount died of what they
// did: they ran out of memory, or crashed. Requests that the kernel sends again run alone. The
// one that runs alone when yet another daemon dies gets EIO from then on: else it would end
// each daemon that comes.
type suspects struct {
	f       *FS
	journal *Journal
	alone   sync.RWMutex // a request that was sent again holds it, the others share it
	refused map[suspect]bool
}

// suspect is what a request asks for.
type suspect struct {
	Op   uint32 `json:"op"`
	Node uint64 `json:"node"`
	Name string `json:"name,omitempty"` // in the directory Node
}

// resumeSuspects takes up what the daemons before this one noted. died: the last of them died
// of what it did, and not for the first time.
func (f *FS) resumeSuspects(p *past, died bool) {
	s := suspects{f: f, journal: f.journal, refused: map[suspect]bool{}}
	for _, r := range p.refused {
		s.refused[r] = true
	}
	switch {
	case p.alone != nil && died:
		s.refused[*p.alone] = true
		f.journal.writeJSON(recordRefused, p.alone)
	case p.alone != nil:
		f.journal.writeJSON(recordAlone, nil)
	}
	if died || len(s.refused) > 0 {
		f.suspects = &s
	}
}

// guard is called before a request is answered, and its result afterwards; resent: the kernel
// sends it again.
func (s *suspects) guard(h *fuse.InHeader, name string, resent bool) (done func(), status fuse.Status) {
	what := suspect{Op: h.Opcode, Node: h.NodeId, Name: name}
	if s.refused[what] {
		return nil, s.f.refuseSuspect(what)
	}
	if !resent {
		s.alone.RLock()
		return s.alone.RUnlock, fuse.OK
	}
	s.alone.Lock()
	s.journal.writeJSON(recordAlone, what)
	return func() {
		s.journal.writeJSON(recordAlone, nil)
		s.alone.Unlock()
	}, fuse.OK
}

// errDied is why a request is refused.
var errDied = errors.New("daemons of this mount died while they answered this request: it may take more memory than there is. " +
	"Mount again to try it again")

// refuseSuspect answers a request that daemons died of.
func (f *FS) refuseSuspect(what suspect) fuse.Status {
	index, id := splitNode(what.Node)
	v, op, path := f.views.at(index), "read", what.Name
	if what.Name != "" {
		op = "lookup"
	}
	if v == nil { // something beside the views
		v = f.views.at(originalView)
	} else if path = f.tree.path(id); what.Name != "" {
		path = join(path, what.Name)
	}
	return f.fail(v, op, path, noOffset, errDied)
}
