package fs

import (
	"context"
	"errors"
	"slices"
	"time"
)

// Rescan lists all directories again that were listed, and tells the kernel what changed. It is for
// a tree that says when it changed, as a whole. When it returns, the kernel has been told.
//
// A file that has the attributes that it had is the same file, unless replaced says otherwise; nil
// never does. Of such a file, whoever has it open goes on while it is among those that were resolved
// last, and gets ESTALE then.
func (f *FS) Rescan(ctx context.Context, replaced func(path string) bool) (err error) {
	all := f.tree.all()
	slices.SortFunc(all, func(a, b *dir) int { return int(a.id) - int(b.id) }) // those above come before those below
	for _, d := range all {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if d.dead.Load() {
			continue
		}
		d.touch()
		if d.snap.Load() == nil {
			continue
		}
		d.stale.Store(true)
		// A directory that went is told with the one above it.
		if _, e := f.refreshUnless(d, replaced); e != nil && !isGone(e) && err == nil {
			err = e
		}
	}
	return errors.Join(err, f.told(ctx))
}

// RescanRoot is Rescan after the directory of the dataset was replaced by another one.
func (f *FS) RescanRoot(ctx context.Context) error {
	if f.live == nil {
		return f.Rescan(ctx, nil)
	}
	f.live.unwatch(f.tree.dir(rootID))
	f.live.lookThrough(ctx.Done())
	return f.told(ctx)
}

// told waits until the kernel was told of all that is known to have changed.
func (f *FS) told(ctx context.Context) error {
	for f.notify.busy.Load() > 0 && f.kernel.Load() != nil {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
	return nil
}

// ResolveAgain makes the next reader of each file ask the server what it is made of, but for files
// that were replaced since they were looked up: those go on as they began.
func (f *FS) ResolveAgain() {
	f.handles.forget(func(n uint64) bool {
		index, id := splitNode(n)
		return index != 0 && f.tree.current(id)
	})
}

// current reports whether an entry is the one that its name leads to.
func (t *tree) current(id uint32) bool {
	e := t.entries.at(id)
	if e == nil {
		return false
	}
	d := t.looked(e.dir)
	if d == nil {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	snap := d.snap.Load()
	if snap == nil {
		return false
	}
	k := t.search(snap, t.name(id))
	return k < len(snap.ids) && snap.at(snap.position(k)) == id
}
