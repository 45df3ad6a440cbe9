package store

import (
	"context"
	"time"
)

// recheckAfter is how long an overlay that is full waits before it asks again which of
// its results are current.
const recheckAfter = time.Hour

// Tend reclaims space until ctx ends: at once, whenever more of the overlay is stale than
// is of use, and now and then while it is full. See [Overlay.Reclaim].
func (v *Overlay) Tend(ctx context.Context, current func(path string, src Identity, key string) bool) {
	again := time.NewTicker(recheckAfter)
	defer again.Stop()
	check := current
	for {
		if err := v.Reclaim(ctx, check); err != nil && ctx.Err() == nil {
			v.log.Warn("space of the overlay could not be reclaimed", "overlay", v.dir, "cause", err)
		}
		check = nil
		select {
		case <-ctx.Done():
			return
		case <-v.wasteful:
		case <-again.C:
			if v.refused.Swap(false) {
				check = current
			}
		}
	}
}

// Reclaim gives back the space of results that cannot be asked for any more: those that
// were superseded (see [Overlay.Put]), and those that current, where it is not nil, says
// are not. A pack of which less than half is of use is removed after the rest of it was
// copied, so that no more is stale than is of use. The copies may exceed the budget, by
// half a pack at most, until the pack is removed.
func (v *Overlay) Reclaim(ctx context.Context, current func(path string, src Identity, key string) bool) error {
	before, stale := v.Reclaimed(), int64(0)
	for _, p := range v.packsNow() {
		if current == nil {
			break
		}
		forget := func(rec scanned) {
			if ctx.Err() != nil {
				return
			}
			for k := range rec.keys {
				if at, ok := v.find(k); ok && at == rec.location() && !current(k.path, k.src, k.key) {
					v.forget(k)
					stale++
				}
			}
		}
		var err error
		if p.part {
			err = v.eachUnfinished(p.name, forget)
		} else {
			_, _, err = v.eachRecord(p.name, forget)
		}
		if err != nil {
			return err
		}
	}
	err := v.compact(ctx, func(p *packUse) bool { return p.records > 0 && 2*p.live.bytes < p.size }, func(p *packUse, _, copied int64) {
		v.reclaimed.Add(p.size - copied)
	})
	v.mu.Lock()
	v.total.Store(v.bytes())
	if err != nil && ctx.Err() == nil {
		err = v.failed(err)
	}
	v.mu.Unlock()
	if bytes := v.Reclaimed() - before; bytes > 0 || stale > 0 {
		if v.o.Room != nil {
			_ = v.o.Room(v.Bytes()) // so that other mounts can have it
		}
		v.log.Info("space is reclaimed of results that nothing can ask for any more", "overlay", v.dir, "bytes", bytes, "left", v.Bytes(), "outdated", stale)
	}
	return err
}

func (v *Overlay) packsNow() []packUse {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.use()
}

// Reclaimed is how many bytes were reclaimed since the overlay was opened.
func (v *Overlay) Reclaimed() int64 { return v.reclaimed.Load() }
