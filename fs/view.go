package fs

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

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
	index    uint32
	name     string
	pipeline transcode.Pipeline
	entered  sync.Once
	counters counters
}

func (v *view) original() bool { return v.index == originalView }

// views are all views that were asked for. They are never forgotten: the kernel
// may hold their nodes.
type views struct {
	max    int
	all    atomic.Pointer[[]*view] // by index - 1
	mu     sync.RWMutex
	byName map[string]*view
	listed []string
}

func newViews(limit int) *views {
	vs := &views{max: limit, byName: map[string]*view{}}
	original := &view{index: originalView, name: transcode.Original}
	vs.all.Store(&[]*view{original})
	vs.byName[original.name] = original
	return vs
}

var errTooManyViews = errors.New("too many views")

// add returns the view of a pipeline, made if it is new.
func (vs *views) add(p transcode.Pipeline) (*view, error) {
	vs.mu.Lock()
	defer vs.mu.Unlock()
	name := p.String()
	if v := vs.byName[name]; v != nil {
		return v, nil
	}
	all := *vs.all.Load()
	if len(all) >= vs.max {
		return nil, fmt.Errorf("%w: %d were entered already", errTooManyViews, vs.max)
	}
	v := &view{index: uint32(len(all) + 1), name: name, pipeline: p}
	all = append(slices.Clip(all), v)
	vs.all.Store(&all)
	vs.byName[name] = v
	return v, nil
}

// at returns the view of a number, or nil.
func (vs *views) at(index uint32) *view {
	all := *vs.all.Load()
	if index == 0 || int64(index) > int64(len(all)) {
		return nil
	}
	return all[index-1]
}

func (vs *views) named(name string) *view {
	vs.mu.RLock()
	defer vs.mu.RUnlock()
	return vs.byName[name]
}

// view returns the view of a canonical spec.
func (f *FS) view(spec string) (*view, error) {
	if v := f.views.named(spec); v != nil {
		return v, nil
	}
	p, err := f.reg.Parse(spec)
	if err != nil {
		return nil, err
	}
	if p.String() != spec {
		return nil, fmt.Errorf("view %q: write %s", spec, p)
	}
	return f.views.add(p)
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
	if _, again := f.specErrors.LoadOrStore(name, true); again || f.explained.Add(1) > maxExplained {
		return
	}
	f.log.Info(err.Error(), "view", name)
}

// enter tells the producer that a view is in use.
func (f *FS) enter(v *view) {
	v.entered.Do(func() { f.producer.Touched(v.pipeline) })
}
