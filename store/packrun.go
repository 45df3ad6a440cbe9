package store

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// run walks the dataset, encodes what is new or changed on all workers, and stores it in
// order.
func (p *packer) run(ctx context.Context) error {
	err := inOrder(ctx, p.o.Workers, p.o.MemoryBytes, p.find)
	if err == nil {
		err = p.writeTombstones()
	}
	if err == nil {
		err = p.batch.flush()
	}
	p.report.Skipped = p.skipped.Load()
	return err
}

// skipsTold is after how many files that are stored already the progress is told.
const skipsTold = 4096

// find hands over what is new or changed.
func (p *packer) find(ctx context.Context, hand func(work) error) error {
	var later []SourceFile // to be shuffled
	for f, err := range p.src.Walk(ctx) {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			if f.Path == "" {
				return err
			}
			p.unread = append(p.unread, f.Path)
			if err := hand(work{store: func(error) error { return p.leaveOut(f.Path, err) }}); err != nil {
				return err
			}
			continue
		}
		f.Mode &= 0o7777
		if err := checkPath(f.Path, f.Kind); err != nil || f.Kind != File && f.Kind != Dir {
			return fmt.Errorf("the source walks to %q, a %v: %w", f.Path, f.Kind, errors.Join(err, errPath))
		}
		if p.state.meet(f) {
			if f.Kind == File && p.skipped.Add(1)%skipsTold == 0 {
				if err := hand(work{store: func(error) error { p.tell(); return nil }}); err != nil {
					return err
				}
			}
			continue
		}
		if f.Kind == File && p.format.Order == OrderShuffle {
			later = append(later, f)
		} else if err := hand(p.work(ctx, f)); err != nil {
			return err
		}
	}
	for _, i := range shuffle(later, p.format.Seed) {
		if err := hand(p.work(ctx, later[i])); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// work is what there is to do for a file or a directory.
func (p *packer) work(ctx context.Context, f SourceFile) work {
	var it *item
	switch {
	case p.copied(f):
		return work{store: func(error) error { return p.copyIn(ctx, f) }}
	case f.Kind == Dir:
		it = &item{Sample: Sample{Path: f.Path, Kind: Dir, Mode: f.Mode, Source: f.Identity}}
		return work{store: func(error) error { return p.put(it) }}
	}
	return work{
		weight: 8*f.Identity.Size + 4<<10, // the result may be several times the file
		make: func(ctx context.Context) (err error) {
			it, err = p.encode(ctx, f)
			return err
		},
		store: func(err error) error {
			if err != nil {
				return p.leaveOut(f.Path, err)
			}
			return p.put(it)
		},
	}
}

// leaveOut warns of a file that is not stored.
func (p *packer) leaveOut(path string, why error) error {
	if p.shard != nil {
		why = p.shard.failure(why)
		var bad *readError
		if errors.As(why, &bad) {
			return why
		}
	}
	p.report.Failed++
	p.o.Warn(path, why)
	return nil
}

// shuffle returns the places of files ordered by a hash of seed and path, so that the
// order of what is left does not depend on what is stored already.
func shuffle(files []SourceFile, seed uint64) []int32 {
	ranks := make([][sha256.Size]byte, len(files))
	order := make([]int32, len(files))
	var b []byte
	for i, f := range files {
		b = append(binary.LittleEndian.AppendUint64(b[:0], seed), f.Path...)
		ranks[i], order[i] = sha256.Sum256(b), int32(i)
	}
	slices.SortFunc(order, func(x, y int32) int { return slices.Compare(ranks[x][:], ranks[y][:]) })
	return order
}

// encode makes what is to be stored of a file.
func (p *packer) encode(ctx context.Context, f SourceFile) (*item, error) {
	read := p.read
	if p.shard != nil {
		read = p.shard.read
	}
	data, id, err := read(ctx, f)
	if err != nil {
		return nil, err
	}
	e, err := p.enc.Encode(ctx, f.Path, data)
	if err != nil {
		return nil, err
	}
	it, err := newItem(Sample{Path: f.Path, Kind: File, Mode: f.Mode, Source: id}, e)
	if err == nil && p.shard != nil {
		err = p.mayTake(it)
	}
	return it, err
}

// read reads a file, again if it changed in between. Bytes count as one version
// when the identity is the same before and after they were read: before is the
// walk, or the read that came to another result.
func (p *packer) read(ctx context.Context, f SourceFile) ([]byte, Identity, error) {
	before := f.Identity
	for try := range 5 {
		if err := pause(ctx, try); err != nil {
			return nil, before, err
		}
		data, after, err := p.src.Read(ctx, f.Path)
		if err != nil {
			return nil, after, err
		}
		if after == before && int64(len(data)) == after.Size {
			return data, after, nil
		}
		before = after
	}
	return nil, before, ErrChanged
}
