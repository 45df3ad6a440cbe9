package fs

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/pipefs/pipefs/internal/account"
	"github.com/pipefs/pipefs/transcode"
)

// A node is one entry in one view: what the kernel calls an inode. Views are
// counted from 1; node numbers below 1<<32 belong to no view, and 1 is the root
// of the mount, as FUSE has it.
func node(view, entry uint32) uint64 { return uint64(view)<<32 | uint64(entry) }

func splitNode(n uint64) (view, entry uint32) { return uint32(n >> 32), uint32(n) }

// originalView is the number of the view that changes nothing.
const originalView = 1

// view is a pipeline presented as a directory.
type view struct {
	index uint32
	// files is the view that its files have their nodes of, mostly itself: a file that
	// bmp-own or stored-bmp shows is that of bmp, and the kernel caches it once.
	files    *view
	name     string
	pipeline transcode.Pipeline
	views    *views
	allowed  atomic.Bool   // Options.Refuse had nothing against it
	counters *account.View // those of other epochs of a random view are the same

	// opens counts, by entry, how often a file of a random view was looked up that is not
	// below .draw; guarded by opensMu.
	opens   []uint32
	drawn   uint32 // epochs before these were shown by daemons before this one
	opensMu sync.Mutex
	said    sync.Once // that it draws

	// refs counts the nodes of the view that the kernel knows, each as often as it was
	// told of it, and the views whose files have nodes of it.
	refs    atomic.Int64
	used    atomic.Int64 // tick of the last lookup
	expired atomic.Bool  // forgotten as soon as refs is 0
}

func (v *view) original() bool { return v.index == originalView }

// views are the views that were entered. Where more than max were, besides the listed
// ones, the kernel is asked to forget those that were looked up longest ago. A view is
// forgotten when the kernel knows no node of it. An index is never given twice: content
// is cached by it.
type views struct {
	max   int
	slots []atomic.Pointer[view] // a view is in the slot of its index modulo their number
	tick  atomic.Int64

	mu     sync.RWMutex
	byName map[string]*view // by path below the root
	next   uint32           // index
	listed []string
	ledger *account.Ledger
	drawn  map[string]*account.View // of random views, by spec
	// forgotten counts the views that were forgotten.
	forgotten uint64
	// noted is told of each view that is made, before anybody uses it, and left of the
	// index of each that is forgotten.
	epochs map[string]uint32 // by spec: those of a random view that daemons before this one have shown
	noted  func(*view)
	left   func(index uint32)
}

func newViews(limit int, ledger *account.Ledger) *views {
	// The kernel forgets in its own time: until then many more may be entered.
	vs := &views{max: limit, slots: make([]atomic.Pointer[view], 16*limit+1), byName: map[string]*view{}, drawn: map[string]*account.View{}, ledger: ledger, next: originalView}
	vs.insert(transcode.Pipeline{})
	return vs
}

// insert makes a view, and before it the one that its files are of, which stays as long as
// it does. The caller holds mu or is alone, and knows that slots are free.
func (vs *views) insert(p transcode.Pipeline) *view {
	var files *view
	if whole := p.Whole(); whole.Path() != p.Path() {
		if files = vs.byName[whole.Path()]; files == nil {
			files = vs.insert(whole)
		}
		files.refs.Add(1)
	}
	for vs.next == 0 || vs.slot(vs.next).Load() != nil {
		vs.next++
	}
	v := &view{index: vs.next, name: p.Path(), pipeline: p, views: vs, counters: vs.countersOf(p), drawn: vs.epochsOf(p)}
	v.files = cmp.Or(files, v)
	vs.next++
	v.used.Store(vs.tick.Add(1))
	if vs.noted != nil {
		vs.noted(v)
	}
	vs.byName[v.name] = v
	vs.slot(v.index).Store(v)
	return v
}

// countersOf returns the counters of a new view. The caller holds mu or is alone.
func (vs *views) countersOf(p transcode.Pipeline) *account.View {
	counters := vs.ledger.View(p.String())
	if p.Random() {
		vs.drawn[p.String()] = counters
	}
	return counters
}

func (vs *views) slot(index uint32) *atomic.Pointer[view] {
	return &vs.slots[index%uint32(len(vs.slots))]
}

var errTooManyViews = errors.New("too many views are in use")

// add returns the view of a pipeline, made if it is new, and what has to expire for it.
// The view is referred to once more if hold says so.
func (vs *views) add(p transcode.Pipeline, hold bool) (v *view, expired []*view, err error) {
	vs.mu.Lock()
	defer vs.mu.Unlock()
	v = vs.byName[p.Path()]
	if v == nil {
		if len(vs.byName)+2 > len(vs.slots) { // it may take two
			return nil, nil, fmt.Errorf("%w: %d", errTooManyViews, len(vs.slots))
		}
		v = vs.insert(p)
		if p.Random() {
			expired = vs.past(v)
		}
		if len(vs.byName) > vs.max {
			expired = append(expired, vs.expire(v)...)
		}
	}
	if hold {
		v.hold()
	}
	return v, expired, nil
}

// hold counts a node that the kernel is told of.
func (v *view) hold() {
	v.refs.Add(1)
	v.expired.Store(false)
	v.used.Store(v.views.tick.Add(1))
}

// release counts nodes that the kernel forgot.
func (v *view) release(n uint64) {
	if v.refs.Add(-int64(n)) <= 0 && v.expired.Load() {
		v.views.forget(v)
	}
}

// expire chooses views where more than max have not expired: a quarter, those that were
// looked up longest ago, but not the one that is being entered. The caller holds mu.
func (vs *views) expire(entered *view) (expired []*view) {
	var live []*view
	for _, v := range vs.byName {
		if v != entered && !v.original() && !v.expired.Load() && !slices.Contains(vs.listed, v.name) {
			live = append(live, v)
		}
	}
	if len(live) < vs.max {
		return nil
	}
	slices.SortFunc(live, func(a, b *view) int { return cmp.Compare(a.used.Load(), b.used.Load()) })
	expired = live[:vs.max/4+1]
	for _, v := range expired {
		v.expired.Store(true)
	}
	return expired
}

// past lets the epochs of a random view expire that nobody will come back to. The caller
// holds mu.
func (vs *views) past(entered *view) (expired []*view) {
	for _, v := range vs.byName {
		if entered.pipeline.Past(v.pipeline) && !v.expired.Swap(true) {
			expired = append(expired, v)
		}
	}
	return expired
}

// forget forgets an expired view that the kernel does not know.
func (vs *views) forget(v *view) {
	vs.mu.Lock()
	forgotten := v.expired.Load() && v.refs.Load() <= 0 && vs.byName[v.name] == v
	if forgotten {
		if vs.left != nil {
			vs.left(v.index)
		}
		delete(vs.byName, v.name)
		vs.slot(v.index).Store(nil)
		vs.forgotten++
	}
	vs.mu.Unlock()
	if forgotten && v.files != v {
		v.files.release(1)
	}
}

// at returns the view of a number, or nil.
func (vs *views) at(index uint32) *view {
	if v := vs.slot(index).Load(); v != nil && v.index == index {
		return v
	}
	return nil
}

// all returns the views in the order in which they were entered.
func (vs *views) all() (all []*view) {
	for i := range vs.slots {
		if v := vs.slots[i].Load(); v != nil {
			all = append(all, v)
		}
	}
	slices.SortFunc(all, func(a, b *view) int { return cmp.Compare(a.index, b.index) })
	return all
}

// known returns the views of which the kernel may know a node.
func (vs *views) known() (known []*view) {
	vs.mu.RLock()
	defer vs.mu.RUnlock()
	for _, v := range vs.byName {
		if v.original() || v.refs.Load() > 0 {
			known = append(known, v)
		}
	}
	return known
}

// named returns the view of a canonical spec if it was entered by its name, and nil
// otherwise.
func (vs *views) named(name string, hold bool) *view {
	vs.mu.RLock()
	defer vs.mu.RUnlock()
	v := vs.byName[name]
	if v == nil || !v.allowed.Load() {
		return nil
	}
	if hold {
		v.hold()
	}
	return v
}

// view returns the view of a canonical spec.
func (f *FS) view(spec string) (*view, error) { return f.findView(spec, false) }

// findView is view; with hold the kernel will be told of a node of it.
func (f *FS) findView(spec string, hold bool) (*view, error) {
	if v := f.views.named(spec, hold); v != nil {
		return v, nil
	}
	p, err := f.reg.ParseRandom(spec)
	if err != nil {
		return nil, err
	}
	if p.String() != spec {
		return nil, fmt.Errorf("view %q: write %s", spec, p)
	}
	return f.enter(p, hold)
}

// enter returns the view of a pipeline unless it is refused.
func (f *FS) enter(p transcode.Pipeline, hold bool) (*view, error) {
	if f.refuse != nil {
		if err := f.refuse(p); err != nil {
			return nil, err
		}
	}
	v, err := f.addView(p, hold)
	if err == nil {
		v.allowed.Store(true)
	}
	return v, err
}

// addView returns the view of a pipeline, and lets others expire where there are too
// many.
func (f *FS) addView(p transcode.Pipeline, hold bool) (*view, error) {
	v, expired, err := f.views.add(p, hold)
	f.notify.views(expired)
	return v, err
}

// listView makes the root list a view.
func (f *FS) listView(spec string) error {
	v, err := f.view(spec)
	if err != nil {
		return err
	}
	f.views.mu.Lock()
	defer f.views.mu.Unlock()
	if !slices.Contains(f.views.listed, v.name) {
		f.views.listed = append(f.views.listed, v.name)
	}
	return nil
}

// maxExplained bounds the names that are explained in the log.
const maxExplained = 1024

// explain logs why a name below the root is no view, once each, if it looks as
// if one was meant: many programs look for files that are not there.
func (f *FS) explain(name string, err error) {
	if len(name) > maxName || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
		return
	}
	if f.explained.Load() >= maxExplained {
		return
	}
	if _, again := f.specErrors.LoadOrStore(name, true); again || f.explained.Add(1) > maxExplained {
		return
	}
	f.log.Info(err.Error(), "view", name)
}
