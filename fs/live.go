package fs

import (
	"hash/maphash"
	"slices"
	"sync"
	"time"

	"github.com/pipefs/pipefs/internal/source"
)

// live is what a Watched mount knows of the directories that are watched, and what it
// was told of them. A directory is watched from before it is first listed: of what the
// kernel was never told it need not be told that it changed.
type live struct {
	f *FS
	w *source.Watcher

	mu      sync.Mutex // after dir.mu
	dirs    map[source.WatchID][]*dir
	links   links
	refused int // directories that could not be watched

	pendingMu sync.Mutex
	pending   batch
	wake      chan struct{}
}

// batch is what changed, by directory, until it is handled.
type batch struct {
	dirs  map[source.WatchID]*dirChanges
	names int
	lost  bool // and anything else may have changed
}

// dirChanges are those of one directory.
type dirChanges struct {
	names map[string]source.Change
	self  source.Change
	all   bool // of more names than there is room for
}

// maxPending bounds the names that are remembered. A directory in which more changed
// is looked through.
const maxPending = 1 << 16

func newLive(f *FS, w *source.Watcher) *live {
	l := &live{f: f, w: w, dirs: map[source.WatchID][]*dir{}, wake: make(chan struct{}, 1)}
	l.links = links{seed: maphash.MakeSeed(), at: map[uint64]uint32{}, more: map[uint64][]uint32{},
		dirs: map[source.WatchID]bool{}, loose: map[string]bool{}}
	return l
}

// watch begins to watch a directory, and reports whether it was not watched before. The
// caller holds d.mu and has not listed it yet.
func (l *live) watch(d *dir, path string) (began bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if d.watched.Load() || d.dead.Load() {
		return false
	}
	id, err := l.w.Add(path)
	if err != nil {
		if !isGone(err) {
			l.refuse(path, err)
		}
		return false
	}
	l.dirs[id] = append(l.dirs[id], d)
	d.watch = id
	d.watched.Store(true)
	return true
}

// refuse counts what cannot be watched. The first one is explained.
func (l *live) refuse(path string, err error) {
	if l.refused++; l.refused == 1 {
		l.f.log.Warn("a directory cannot be watched: changes of its files show after a second; pipefs stats counts such directories",
			"path", path, "cause", err)
	}
}

// still reports whether a path leads to the directory that is watched as d.
func (l *live) still(d *dir, path string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	id, err := l.w.Add(path)
	if err != nil {
		return false
	}
	l.drop(id)
	return id == d.watch
}

// drop ends the watching of a directory that nobody uses. The caller holds mu.
func (l *live) drop(id source.WatchID) {
	if len(l.dirs[id]) == 0 && !l.links.dirs[id] {
		delete(l.dirs, id)
		l.w.Drop(id)
	}
}

// retire ends the life of a directory that went or was replaced, and of those below it.
// A reader that has it open gets ESTALE. Its name leads to what is there now.
func (l *live) retire(id uint32) {
	d := l.f.tree.looked(id)
	if d == nil || d.dead.Swap(true) {
		return
	}
	l.unwatch(d)
	snap := d.snap.Load()
	if snap == nil {
		return
	}
	for i := range snap.ids {
		if id := snap.at(i); l.f.tree.entries.at(id).kind == isDir {
			l.retire(id)
		}
	}
}

// unwatch ends the watching of a directory.
func (l *live) unwatch(d *dir) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if d.watched.Swap(false) {
		l.dirs[d.watch] = slices.DeleteFunc(l.dirs[d.watch], func(other *dir) bool { return other == d })
		l.drop(d.watch)
	}
}

// at returns the directories of the tree that are one watched directory.
func (l *live) at(id source.WatchID) []*dir {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.dirs[id])
}

// read takes events from the watcher until it is closed. It handles none: events that
// are not taken soon are lost.
func (l *live) read() {
	var events []source.Event
	for {
		var err error
		if events, err = l.w.Read(events[:0]); err != nil {
			return
		}
		l.add(events)
	}
}

func (l *live) add(events []source.Event) {
	l.pendingMu.Lock()
	p := &l.pending
	for _, e := range events {
		if e.Change&source.Lost != 0 {
			p.lost = true
			continue
		}
		if p.dirs == nil {
			p.dirs = map[source.WatchID]*dirChanges{}
		}
		c := p.dirs[e.Dir]
		if c == nil {
			c = &dirChanges{names: map[string]source.Change{}}
			p.dirs[e.Dir] = c
		}
		before, known := c.names[e.Name]
		switch {
		case e.Name == "":
			c.self |= e.Change
		case known:
			c.names[e.Name] = before | e.Change
		case p.names >= maxPending:
			c.all = true
		default:
			p.names++
			c.names[e.Name] = e.Change
		}
	}
	l.pendingMu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

func (l *live) take() batch {
	l.pendingMu.Lock()
	defer l.pendingMu.Unlock()
	p := l.pending
	l.pending = batch{}
	return p
}

// The pauses of run: none is shorter or longer.
const (
	minPause = time.Millisecond
	maxPause = 200 * time.Millisecond
)

// run handles what changed until stop is closed. In the long run it pauses as long as it
// works: what changes all the time is handled in larger pieces, what changes now and
// then at once.
func (l *live) run(stop <-chan struct{}) {
	var owed time.Duration
	for {
		idle := time.Now()
		select {
		case <-stop:
			return
		case <-l.wake:
		}
		began := time.Now()
		owed = max(0, owed-began.Sub(idle))
		l.handle(l.take(), stop)
		if owed += time.Since(began); owed < minPause {
			continue
		}
		select {
		case <-stop:
			return
		case <-time.After(min(owed, maxPause)):
			owed = 0
		}
	}
}

func (l *live) handle(b batch, stop <-chan struct{}) {
	if b.lost {
		l.f.log.Warn("the system lost events of changes in the dataset; all directories that were listed are looked through")
		l.lookThrough(stop)
		return
	}
	for id, c := range b.dirs {
		dirs := l.at(id)
		if l.toLinks(id, c) {
			l.lookThrough(stop)
			return
		}
		for _, d := range dirs {
			if c.self&source.Gone != 0 {
				l.gone(d)
			}
			l.f.changed(d, c)
		}
	}
}

// lookThrough looks at everything that the kernel may know.
func (l *live) lookThrough(stop <-chan struct{}) {
	for _, d := range l.f.tree.all() {
		select {
		case <-stop:
			return
		default:
			l.f.changed(d, &dirChanges{all: true})
		}
	}
}

// gone handles a directory that was moved, deleted or unmounted: its name may lead to
// another one now, or to none.
func (l *live) gone(d *dir) {
	if d.id == rootID || d.dead.Load() {
		return // the root is found wherever it is moved to
	}
	name := l.f.tree.name(d.id)
	above := l.f.tree.dir(l.f.tree.entries.at(d.id).dir)
	l.f.changed(above, &dirChanges{names: map[string]source.Change{name: source.Names}})
}
