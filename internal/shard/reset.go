package shard

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/pipefs/pipefs/store"
	"github.com/pipefs/pipefs/store/vfs"
)

// ErrCommitted is the class of errors about a plan that is committed.
var ErrCommitted = errors.New("the plan is committed, and its packs are a part of the store")

// mostLost is how many packs of a shard, one after the other, may be missing before a later one.
const mostLost = 64

// Reset removes what shards first to last have put, so that they can be packed again, and returns how many
// objects that were. fsys is that of the store in dir. The error is of the class ErrCommitted where the
// plan is committed.
func (p *Plan) Reset(ctx context.Context, dir string, fsys vfs.FS, first, last int) (removed int, err error) {
	committed, err := store.PlanState(fsys, dir, p.ID, p.Base.Generation)
	if committed {
		return 0, fmt.Errorf("%s: %w", PlanName(p.ID), ErrCommitted)
	}
	if err != nil && !errors.Is(err, store.ErrStale) {
		return 0, err
	}
	if last >= p.Shards {
		return 0, fmt.Errorf("there is no shard %d: the plan has shards 0 to %d", last, p.Shards-1)
	}
	there := map[string]bool{}
	for page, err := range p.place.List(ctx, room(p.ID)+"/", true) {
		if err != nil {
			return 0, err
		}
		for _, i := range page {
			there[i.Name] = true
		}
	}
	if there[CommittedName(p.ID)] {
		return 0, fmt.Errorf("%s: it is being committed, or a commit was interrupted: %w", PlanName(p.ID), fs.ErrExist)
	}
	remove := func(name string) error {
		if !there[name] {
			return nil
		}
		removed++
		return p.place.Delete(ctx, name)
	}
	for shard := first; shard <= last; shard++ {
		// Without its marker it is not done.
		if err := remove(MarkerName(p.ID, shard)); err != nil {
			return removed, err
		}
		for n, lost := uint64(0), 0; lost < mostLost; n++ {
			pack := store.ShardPack(p.ID, p.Digest, shard, p.Age, n)
			if lost++; there[pack.File()] || there[pack.SegmentFile()] {
				lost = 0
			}
			if err := errors.Join(remove(pack.File()), remove(pack.SegmentFile())); err != nil {
				return removed, err
			}
		}
	}
	return removed, nil
}
