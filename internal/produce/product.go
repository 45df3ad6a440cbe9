package produce

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/pipefs/pipefs/store"
	"github.com/pipefs/pipefs/transcode"
)

// productKey names a result: a version of a file and what was made of it.
type productKey struct {
	file File
	plan string
}

// product is a result in memory, or the error that is there instead. It is
// complete when done is closed.
type product struct {
	done  chan struct{}
	split transcode.Split // a whole result is the only part
	err   error
}

// cut is the part of a product's data that a job takes.
func (m *product) cut(j *job) (data []byte, err error) {
	head, ok := j.plan.Head()
	if !ok || j.plan.Len() > 1 {
		return m.split.Data, nil
	}
	if head.Arg > len(m.split.Levels) {
		return nil, transcode.Errorf(transcode.ErrInternal, "%s: there are %d levels", head, len(m.split.Levels))
	}
	return m.split.Data[:m.split.Ends[m.split.Levels[head.Arg-1]-1]], nil
}

// content opens the product as a job's content.
func (m *product) content(j *job) (*Content, error) {
	data, err := m.cut(j)
	if err != nil {
		return nil, err
	}
	size := int64(len(data) + len(m.split.Tail))
	return &Content{size: size, cost: size, reader: memory{data: data, tail: m.split.Tail}}, nil
}

// recent returns a product that is still in memory, or nil.
func (p *Producer) recent(j *job) *product {
	p.mu.Lock()
	made, ok := p.products.get(productKey{j.file, j.plan.Key()})
	p.mu.Unlock()
	if !ok {
		return nil
	}
	select {
	case <-made.done:
		if made.err == nil {
			return made
		}
	default:
	}
	return nil
}

// produce makes a job's result from the chosen origin, once: everybody who wants
// it meanwhile waits for the same one. It takes a place among workers.
func (p *Producer) produce(ctx context.Context, workers *semaphore.Weighted, j *job, chosen int) (*product, error) {
	key := productKey{j.file, j.plan.Key()}
	for {
		p.mu.Lock()
		made, ok := p.products.get(key)
		if !ok {
			made = &product{done: make(chan struct{})}
			p.products.put(key, made, 0)
			p.mu.Unlock()
			p.finish(ctx, workers, key, made, j, chosen)
			return made, made.err
		}
		p.mu.Unlock()
		select {
		case <-made.done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		// The one who was making it may have been interrupted; we were not.
		if errors.Is(made.err, context.Canceled) || errors.Is(made.err, context.DeadlineExceeded) {
			p.forget(key, made)
			continue
		}
		return made, made.err
	}
}

// forget removes a product unless another has taken its place.
func (p *Producer) forget(key productKey, made *product) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now, ok := p.products.get(key); ok && now == made {
		p.products.remove(key)
	}
}

// finish fills in a product and wakes who waits for it.
func (p *Producer) finish(ctx context.Context, workers *semaphore.Weighted, key productKey, made *product, j *job, chosen int) {
	defer func() {
		if r := recover(); r != nil {
			made.err = transcode.Errorf(transcode.ErrInternal, "making %s: panic: %v", key.plan, r)
			p.stats.panics.Add(1)
		}
		if made.err == nil {
			p.mu.Lock()
			// its cost is known only now
			p.products.put(key, made, int64(len(made.split.Data)))
			p.mu.Unlock()
		} else if !isFault(made.err) {
			p.forget(key, made)
		}
		close(made.done)
	}()
	made.split, made.err = p.run(ctx, workers, j, chosen)
	if made.err != nil {
		p.stats.failed.Add(1)
		return
	}
	p.stats.produced.Add(1)
	if j.rebuild != nil {
		p.stats.rebuilt.Add(1)
	}
	if p.keeps(j.plan) {
		p.keep(j, made.split)
	}
}

// run computes the steps that remain after the chosen origin.
func (p *Producer) run(ctx context.Context, workers *semaphore.Weighted, j *job, chosen int) (split transcode.Split, err error) {
	if err := workers.Acquire(ctx, 1); err != nil {
		return transcode.Split{}, err
	}
	defer workers.Release(1)
	from := j.origins[chosen]
	r, err := from.open()
	if err != nil {
		return transcode.Split{}, err
	}
	defer r.Close()
	weight := min(j.work()+r.Size(), workBytes)
	if err := p.memory.Acquire(ctx, weight); err != nil {
		return transcode.Split{}, err
	}
	defer p.memory.Release(weight)
	src := p.sources.get(r.Size())
	defer func() { p.sources.put(src, split) }()
	switch n, err := r.ReadAt(src, 0); {
	case n == len(src):
	case errors.Is(err, io.EOF):
		return transcode.Split{}, fmt.Errorf("%s: %w", j.file.Path, ErrChanged)
	default:
		return transcode.Split{}, err
	}
	started := time.Now()
	defer func() { p.stats.busy.Add(int64(time.Since(started))) }()
	if j.rebuild != nil {
		return j.rebuild.run(ctx, j.file, src, p.o.Registry.Limits())
	}
	if head, ok := j.plan.Head(); ok && j.plan.Len() == 1 {
		return head.Kind.Split(ctx, src, p.o.Registry.Limits(), false)
	}
	data, err := from.plan.RunAfter(ctx, from.steps, src)
	if err != nil {
		return transcode.Split{}, err
	}
	return transcode.Split{Data: data, Ends: []int{len(data)}}, nil
}

// keeps reports whether a plan's result is worth a place in the overlay: where
// its size cannot be known without making it, and where it is smaller than what
// it was made from. An original is neither.
func (p *Producer) keeps(plan transcode.Plan) bool {
	if plan.Unchanged() {
		return false
	}
	if _, closed := plan.Size(); !closed {
		return true
	}
	return plan.Shrinks()
}

// keep puts a result into the overlay. Failing to is no error of the sample.
func (p *Producer) keep(j *job, s transcode.Split) {
	if p.o.Overlay == nil {
		return
	}
	err := p.o.Overlay.Put(j.file.Path, store.Identity(j.file.Identity), j.plan.Info(), j.plan.Key(), s)
	switch {
	case err == nil:
		p.stats.kept.Add(1)
	case errors.Is(err, store.ErrFull):
		p.background.full()
	default:
		p.log.Warn("cannot keep what was produced; it will be made again", "sample", j.file.Path, "key", j.plan.Key(), "cause", err)
	}
}
