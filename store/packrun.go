package store

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/semaphore"
)

// job is one file or directory on its way into a pack: the producer
// finds it, a worker reads and encodes it, the committer stores it. Jobs are
// committed in the order in which they were found, whoever is done first.
type job struct {
	file   SourceFile
	weight int64 // of the memory budget, bytes
	copied bool  // by the committer, and no worker's
	item   *item
	err    error
	done   chan struct{}
}

// packRun is what the goroutines of a packing share.
type packRun struct {
	p       *packer
	work    chan *job
	pending chan *job
	memory  *semaphore.Weighted
	skipped atomic.Int64
	// kept holds paths that could not be walked: nothing below them is gone.
	// The producer's until it is done.
	kept    []string
	walkErr error
}

// run walks the dataset, encodes on all workers, and commits in order.
func (p *packer) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r := &packRun{
		p: p, work: make(chan *job), pending: make(chan *job, 2*p.o.Workers),
		memory: semaphore.NewWeighted(p.o.MemoryBytes),
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		defer close(r.pending)
		defer close(r.work)
		r.walkErr = r.produce(ctx)
	})
	for range p.o.Workers {
		wg.Go(func() {
			for j := range r.work {
				j.item, j.err = p.encode(ctx, j.file)
				close(j.done)
			}
		})
	}
	err := r.commit(ctx)
	cancel()
	wg.Wait()
	p.report.Skipped = r.skipped.Load()
	if err == nil {
		err = r.walkErr
	}
	if err == nil {
		err = p.bury(r.kept)
	}
	if err == nil {
		err = p.flush()
	}
	return err
}

// produce finds what is new or changed.
func (r *packRun) produce(ctx context.Context) error {
	var later []SourceFile // to be shuffled
	for f, err := range r.p.src.Walk(ctx) {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			if f.Path == "" {
				return err
			}
			r.kept = append(r.kept, f.Path)
			if err := r.hand(ctx, &job{file: f, err: err}); err != nil {
				return err
			}
			continue
		}
		f.Mode &= 0o7777
		if err := checkPath(f.Path, f.Kind); err != nil || f.Kind != File && f.Kind != Dir {
			return fmt.Errorf("the source walks to %q, a %v: %w", f.Path, f.Kind, errors.Join(err, errPath))
		}
		if r.p.state.meet(f) {
			if f.Kind == File {
				r.skipped.Add(1)
			}
			continue
		}
		if f.Kind == File && r.p.format.Order == OrderShuffle {
			later = append(later, f)
			continue
		}
		if err := r.find(ctx, f); err != nil {
			return err
		}
	}
	for _, i := range shuffle(later, r.p.format.Seed) {
		if err := r.find(ctx, later[i]); err != nil {
			return err
		}
	}
	return ctx.Err()
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

// find gives a file to a worker; a directory needs none.
func (r *packRun) find(ctx context.Context, f SourceFile) error {
	j := &job{file: f, copied: r.p.copied(f)}
	if j.copied {
		return r.hand(ctx, j)
	}
	if f.Kind == Dir {
		j.item = &item{Sample: Sample{Path: f.Path, Kind: Dir, Mode: f.Mode, Source: f.Identity}}
		return r.hand(ctx, j)
	}
	// The result may be several times the file. One file is always let through.
	j.weight = min(8*f.Identity.Size+4<<10, r.p.o.MemoryBytes)
	if err := r.memory.Acquire(ctx, j.weight); err != nil {
		return err
	}
	j.done = make(chan struct{})
	if err := r.hand(ctx, j); err != nil {
		return err
	}
	select {
	case r.work <- j:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (r *packRun) hand(ctx context.Context, j *job) error {
	select {
	case r.pending <- j:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// encode makes what is to be stored of a file.
func (p *packer) encode(ctx context.Context, f SourceFile) (it *item, err error) {
	// One hostile file must not end a run of hours.
	defer func() {
		if r := recover(); r != nil {
			it, err = nil, fmt.Errorf("the encoder panicked: %v\n%s", r, debug.Stack())
		}
	}()
	data, id, err := p.read(ctx, f)
	if err != nil {
		return nil, err
	}
	e, err := p.enc.Encode(ctx, f.Path, data)
	if err != nil {
		return nil, err
	}
	return newItem(Sample{Path: f.Path, Kind: File, Mode: f.Mode, Source: id}, e)
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

// commit stores jobs in order.
func (r *packRun) commit(ctx context.Context) error {
	p := r.p
	for {
		var j *job
		select {
		case j = <-r.pending:
		case <-ctx.Done():
			return ctx.Err()
		}
		if j == nil {
			return nil
		}
		if j.done != nil {
			select {
			case <-j.done:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		p.report.Skipped = r.skipped.Load()
		if j.copied {
			if err := p.copyIn(ctx, j.file); err != nil {
				return err
			}
		} else if j.err != nil {
			if err := ctx.Err(); err != nil {
				return err
			}
			p.report.Failed++
			p.o.Warn(j.file.Path, j.err)
		} else if err := p.put(j.item); err != nil {
			return err
		}
		if j.weight > 0 {
			r.memory.Release(j.weight)
		}
	}
}
