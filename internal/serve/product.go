package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/pipefs/pipefs/transcode"
)

// productKey names a result: a version of a file and what was made of it.
type productKey struct {
	file File
	plan string
}

// product is a result in memory, or the error that is there instead. It is
// complete when done is closed. The cache of products holds it, and so does
// everybody who got it from produce or recent, until release.
type product struct {
	key   productKey
	done  chan struct{}
	split transcode.Split // a whole result is the only part
	err   error
	// shared: files of several views are parts of it.
	shared bool
	// stop ends the attempt of the background that is making it; nil where a reader
	// is. Readers do not wait for a thread of low priority.
	stop context.CancelFunc

	holders atomic.Int32
	// buffer is where the result lies, if others may have that memory afterwards.
	buffer []byte
	from   *buffers
}

func (m *product) hold() *product {
	m.holders.Add(1)
	return m
}

// release ends one hold.
func (m *product) release() {
	if m.holders.Add(-1) == 0 && m.buffer != nil {
		m.from.put(m.buffer)
	}
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

// content opens the product as a job's content, and passes its hold on to it.
func (m *product) content(j *job) (*Content, error) {
	data, err := m.cut(j)
	if err != nil {
		m.release()
		return nil, err
	}
	size := int64(len(data) + len(m.split.Tail))
	return &Content{size: size, cost: size, reader: memory{data, m.split.Tail, m}}, nil
}

// size is that of a job's content.
func (m *product) size(j *job) (int64, error) {
	data, err := m.cut(j)
	return int64(len(data) + len(m.split.Tail)), err
}

// recent returns a product that is still in memory, or nil.
func (p *Server) recent(j *job) *product {
	p.mu.Lock()
	defer p.mu.Unlock()
	made, ok := p.products.get(productKey{j.file, j.plan.Key()})
	if !ok {
		return nil
	}
	if made.complete() && made.err == nil {
		return made.hold()
	}
	return nil
}

// complete reports whether done is closed.
func (m *product) complete() bool {
	select {
	case <-m.done:
		return true
	default:
		return false
	}
}

// produce makes a job's result from the chosen origin, once: everybody who wants
// it meanwhile waits for the same one. A reader does not wait for the background: it
// makes the result itself, and the background's attempt ends. Without an error the
// product has to be released.
func (p *Server) produce(ctx context.Context, by *crew, j *job, chosen int) (*product, error) {
	key := productKey{j.file, j.plan.Key()}
	for {
		p.mu.Lock()
		made, ok := p.products.get(key)
		if ok && by == p.readers && made.stop != nil && !made.complete() {
			made.stop()
			ok = false
		}
		if !ok {
			_, parts := j.plan.Head()
			made = (&product{key: key, done: make(chan struct{}), from: &p.results, shared: parts}).hold()
			making := ctx
			if by == p.idlers {
				making, made.stop = context.WithCancel(ctx)
				defer made.stop()
			}
			p.remember(made, 0)
			p.mu.Unlock()
			p.finish(making, by, made, j, chosen)
		} else {
			made.hold()
			p.mu.Unlock()
			select {
			case <-made.done:
			case <-ctx.Done():
				made.release()
				return nil, ctx.Err()
			}
		}
		if made.err == nil {
			return made, nil
		}
		made.release()
		// The one who was making it may have been interrupted; we were not.
		if ok && (errors.Is(made.err, context.Canceled) || errors.Is(made.err, context.DeadlineExceeded)) {
			p.forget(made)
			continue
		}
		return nil, made.err
	}
}

// remember puts a product into the cache, with p.mu held. One of the same key goes.
func (p *Server) remember(made *product, cost int64) {
	made.hold()
	for _, dropped := range p.products.put(made.key, made, cost) {
		dropped.release()
	}
}

// forget removes a product from the cache unless another has taken its place.
func (p *Server) forget(made *product) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now, ok := p.products.get(made.key); ok && now == made {
		p.products.remove(made.key)
		made.release()
	}
}

// finish fills in a product and wakes who waits for it. What a reader made is kept
// afterwards, without anybody waiting.
func (p *Server) finish(ctx context.Context, by *crew, made *product, j *job, chosen int) {
	made.err = p.attempt(ctx, by, j, chosen, made)
	p.mu.Lock()
	// A reader may have taken over what the background was making.
	if now, ok := p.products.get(made.key); made.err == nil && (!ok || now == made) {
		p.remember(made, int64(len(made.split.Data))) // its cost is known only now
	}
	p.mu.Unlock()
	if made.err != nil && !isFault(made.err) {
		p.forget(made)
	}
	close(made.done)
	if made.err == nil && by == p.readers && p.keeps(j.plan) {
		p.keeper.offer(j, made)
	}
}

// attempt is run, counted. A panic is an error of ours.
func (p *Server) attempt(ctx context.Context, by *crew, j *job, chosen int, made *product) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = transcode.Errorf(transcode.ErrInternal, "making %s: panic: %v", made.key.plan, r)
			p.stats.panics.Add(1)
		}
	}()
	if err := p.run(ctx, by, j, chosen, made); err != nil {
		if !errors.Is(err, context.Canceled) {
			p.stats.failed.Add(1)
		}
		return err
	}
	p.stats.produced.Add(1)
	if j.rebuild != nil {
		p.stats.rebuilt.Add(1)
	}
	return nil
}

// run computes the steps that remain after the chosen origin.
func (p *Server) run(ctx context.Context, by *crew, j *job, chosen int, made *product) error {
	if err := by.join(ctx); err != nil {
		return err
	}
	defer by.leave()
	from := j.origins[chosen]
	r, err := from.open()
	if err != nil {
		return err
	}
	defer r.Close()
	// A store may have been packed with a higher limit.
	if err := p.o.Registry.Limits().CheckFile(r.Size()); err != nil {
		return err
	}
	taken, err := by.take(ctx, j.work()+r.Size())
	if err != nil {
		return err
	}
	defer by.give(taken)
	src := p.sources.get(r.Size())
	defer func() {
		if split := &made.split; !within(split.Data, src) && !within(split.Tail, src) && !within(split.Reconstruction, src) {
			p.sources.put(src)
		}
	}()
	switch n, err := p.meter.metered(r).ReadAt(src, 0); {
	case n == len(src):
		p.stats.fetched.Add(int64(n))
	case errors.Is(err, io.EOF):
		return fmt.Errorf("%s: %w", j.file.Path, ErrChanged)
	default:
		return err
	}
	defer p.meter.computing()()
	started := time.Now()
	defer func() { p.stats.busy.Add(int64(time.Since(started))) }()
	if j.rebuild != nil {
		made.split, err = j.rebuild.run(ctx, j.file, src, p.o.Registry.Limits())
		return err
	}
	if head, ok := j.plan.Head(); ok && j.plan.Len() == 1 {
		made.split, err = head.Kind.Split(ctx, src, p.o.Registry.Limits(), false)
		return err
	}
	var buffer []byte
	data, err := from.plan.RunAfter(ctx, from.steps, src, func(n int64) []byte {
		buffer = p.results.get(n)
		return buffer
	})
	if err != nil {
		return err
	}
	if within(data, buffer) {
		made.buffer = buffer
	}
	made.split = transcode.Split{Data: data, Ends: []int{len(data)}}
	return nil
}
