package epoch

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"runtime"
	"sync"
	"time"

	"github.com/pipefs/pipefs/internal/account"
	"github.com/pipefs/pipefs/internal/serve"
	"github.com/pipefs/pipefs/internal/source"
	"github.com/pipefs/pipefs/transcode"
)

// Server makes the samples.
type Server interface {
	Stat(path string, fresh bool) (source.Attr, error)
	Resolve(ctx context.Context, key serve.Key, f serve.File, v transcode.Pipeline, most serve.Effort) (*serve.Handle, error)
	Fetch(ctx context.Context, key serve.Key, f serve.File, v transcode.Pipeline)
	OnError() serve.OnError
	Excuse(path string, cause error) error
	Replaceable(path string) error
	PairedWith(mask, picture string) error
}

// Options of New.
type Options struct {
	Registry *transcode.Registry
	Server   Server
	// Budget bounds the bytes of batches in memory; less than MinBudget means that.
	Budget int64
	// Workers is the number of samples made at once; 0 means one a core.
	Workers int
	// Account counts what is read of views; nil: nobody does.
	Account *account.Ledger
	// Far is how many samples are fetched side by side before they are made, where each takes a round
	// trip; 0 where they are near.
	Far int
	// Roles say which samples have masks.
	Roles transcode.Roles
	// Tables are files that list samples, by the names that stand for them in paths.
	Tables map[string]string
	// Unlabelled is the name of directories whose samples are of no class, if there are any. It comes behind those of classes.
	Unlabelled string
	// Metadata returns a line of JSON for each sample, which begins with its path as file_name; nil: there is none.
	Metadata func() ([]byte, error)
	Log      *slog.Logger // nil is silent
}

// MinBudget is the least number of bytes for batches.
const MinBudget = 64 << 20

// Views are the epoch views of a mount. They are safe for concurrent use.
type Views struct {
	o     Options
	tree  Tree
	maker *maker

	mu     sync.Mutex
	lists  map[string]*list // by directory or table: the newest
	tables int              // that were read
	epochs map[epochKey]*epoch
}

// epochKey names an epoch: all ranks, batches and views of it have the same samples in
// the same order.
type epochKey struct {
	seed, epoch uint64
	dir         string
	window      int
}

// epoch is one that somebody reads. Its list stays what it is, whatever happens to the
// dataset: ranks that come later have to read the same.
type epoch struct {
	list  *list
	order []uint32
	views map[Path]*View
	// guarded by Views.mu
	used    time.Time
	checked time.Time // when the dataset was last looked at
	changed bool      // it has other samples now
	unseen  bool      // it was made ahead: nobody has looked at it
	told    sync.Once
}

const (
	// maxEpochs is how many epochs are remembered, those that were used last.
	maxEpochs = 16
	// recheck is how often the dataset is looked at for an epoch that is read: all of its
	// directories are.
	recheck = 30 * time.Second
	// idle is how long nobody has to read an epoch before it may get a new list.
	idle = 10 * time.Minute
)

// New returns the views of a tree; Close ends what they still make.
func New(o Options) *Views {
	o.Budget = max(o.Budget, MinBudget)
	if o.Workers == 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	v := &Views{o: o, lists: map[string]*list{}, epochs: map[epochKey]*epoch{}}
	v.maker = newMaker(o)
	return v
}

// Use says of which tree the views are. It comes first.
func (v *Views) Use(t Tree) { v.tree = t }

// Close ends what is being made, and waits for that.
func (v *Views) Close() error { v.maker.close(); return nil }

// Find returns the view with a path of the pipeline p. The same path leads to the same
// view until the dataset has changed and nobody has read the epoch for a while.
func (v *Views) Find(path Path, p transcode.Pipeline) (*View, error) { return v.find(path, p, false) }

// find is Find, for somebody or ahead of who may come.
func (v *Views) find(path Path, p transcode.Pipeline, ahead bool) (*View, error) {
	pixels, fixed := v.o.Registry.FixedArray(p)
	e, err := v.epoch(epochKey{path.Seed, path.Epoch, path.Of, path.Window}, ahead)
	if err != nil {
		return nil, err
	}
	v.mu.Lock()
	e.unseen = e.unseen && ahead
	found := e.views[path]
	v.mu.Unlock()
	if n := len(e.list.ids); path.From > n {
		return nil, fmt.Errorf("%s%d: the epoch has %d samples", fromWord[1:], path.From, n)
	}
	if found != nil {
		return found, nil
	}
	w := &View{of: v, path: path, pipeline: p, counters: v.o.Account.View(p.String()), array: pixels, fixed: fixed, epoch: e, share: path.share(len(e.list.ids))}
	w.findMask() // it may read one
	if size := w.bytes(path.Batch); fixed && size > v.o.Budget {
		return nil, fmt.Errorf("a batch of %d samples of %s is %d MiB, more than the %d MiB that --cache-bytes gives to batches: take fewer, or mount with more",
			path.Batch, path.View, size>>20, v.o.Budget>>20)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if found = e.views[path]; found == nil {
		found = w
		e.views[path] = w
	}
	return found, nil
}

// epoch returns an epoch, with the list that it has already or a new one.
func (v *Views) epoch(key epochKey, ahead bool) (*epoch, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	e := v.epochs[key]
	if e != nil && !e.unseen && time.Since(e.checked) < recheck {
		return e, nil
	}
	l, err := v.newest(key.dir)
	if err != nil {
		return nil, err
	}
	if e != nil {
		e.checked = time.Now()
		if e.list == l {
			return e, nil
		}
		if !e.unseen && time.Since(e.used) < idle {
			e.changed = true
			e.told.Do(func() {
				v.o.Log.Warn("the dataset has changed; an epoch that is being read goes on with the samples that it began with",
					"seed", key.seed, "epoch", key.epoch, "directory", key.dir)
			})
			return e, nil
		}
	}
	e = &epoch{list: l, order: order(key.seed, key.epoch, len(l.ids), key.window), views: map[Path]*View{}, used: time.Now(), checked: time.Now(), unseen: ahead}
	v.epochs[key] = e
	v.forget()
	return e, nil
}

// following returns the view of the epoch after one that somebody reads, and how many of its batches may
// be made ahead of him: one, unless he has read the epoch before, too. It is nil where there is none.
func (v *Views) following(w *View) (next *View, early int) {
	path := w.path
	if path.Epoch == math.MaxUint64 {
		return nil, 0
	}
	path.Epoch--
	path.From = 0
	v.mu.Lock()
	early = 1
	if before := v.epochs[epochKey{path.Seed, path.Epoch, path.Of, path.Window}]; before != nil && before.views[path] != nil && before.views[path].read.Load() {
		early = maxAhead
	}
	v.mu.Unlock()
	path.Epoch += 2
	pipeline := w.pipeline
	if pipeline.Random() {
		pipeline = pipeline.In(path.Seed, path.Epoch)
	}
	next, err := v.find(path, pipeline, true)
	if err != nil {
		return nil, 0 // who comes there is told
	}
	return next, early
}

// newest returns the list of a directory or table as it is now. The caller holds mu.
func (v *Views) newest(dir string) (*list, error) {
	version, err := v.tree.Version()
	if err != nil {
		return nil, err
	}
	before := v.lists[dir]
	var stamp source.Identity
	table := v.isTable(dir)
	if table {
		a, err := v.stat(dir)
		if err != nil {
			return nil, err
		}
		stamp = a.Identity
	}
	if before != nil && before.version == version && before.stamp == stamp {
		return before, nil
	}
	var l *list
	if table {
		l, err = v.newTableList(version, dir, stamp)
	} else {
		l, err = v.newList(version, dir, v.o.Unlabelled)
	}
	if err != nil {
		return nil, err
	}
	v.findMasks(l)
	if before != nil && before.same(l) {
		before.version, before.stamp, l = version, stamp, before // something else changed
	}
	v.lists[dir] = l
	return l, nil
}

// forget forgets the epochs that nobody has used for the longest time, with mu held.
func (v *Views) forget() {
	for len(v.epochs) > maxEpochs {
		var oldest epochKey
		var e *epoch
		for key, other := range v.epochs {
			if e == nil || other.used.Before(e.used) {
				oldest, e = key, other
			}
		}
		delete(v.epochs, oldest)
	}
	maps.DeleteFunc(v.lists, func(dir string, _ *list) bool {
		for key := range v.epochs {
			if key.dir == dir {
				return false
			}
		}
		return true
	})
}

// use notes that somebody reads an epoch.
func (v *Views) use(e *epoch) {
	v.mu.Lock()
	defer v.mu.Unlock()
	e.used = time.Now()
}

// changed reports whether the dataset has other samples now than an epoch has.
func (v *Views) changed(e *epoch) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return e.changed
}
