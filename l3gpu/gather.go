package l3gpu

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/l3"
)

// GatherOptions bound how pictures are gathered. The zero value of each field
// means its default.
type GatherOptions struct {
	// Window is how long a picture waits at most for others to share its batch, while
	// batches are being decoded and one more could begin. A picture that comes alone does
	// not wait. Default: 300 µs; negative means not at all.
	Window time.Duration
	// MaxPictures and MaxBytes, of samples, end a batch. Default: 256 and 64 MiB.
	MaxPictures int
	MaxBytes    int64
	// Batches is how many are decoded at once: the second is copied while the first
	// is computed. Default: 2.
	Batches int
}

// ErrClosed is returned by what was closed.
var ErrClosed = errors.New("the decoder is closed")

// Gatherer makes batches of the pictures that several callers want at once. The pictures that
// come while batches are decoded are the next batch. A picture waits for others for the
// Window at most.
type Gatherer struct {
	backend l3.Backend
	o       GatherOptions

	mu      sync.Mutex
	queue   []*waiting
	bytes   int64 // of the queue's samples
	running int   // batches
	armed   bool  // the Window's timer runs
	closed  bool
	idle    sync.Cond // on mu; running is 0
}

var _ l3.Backend = (*Gatherer)(nil)

// waiting is a picture, from its arrival to its end.
type waiting struct {
	job  l3.Job
	size int64
	done chan struct{}
	lost error // of the backend: then the job's own error says nothing
}

// Gather returns a Gatherer over a backend, which it closes with itself.
func Gather(backend l3.Backend, o GatherOptions) *Gatherer {
	if o.Window == 0 {
		o.Window = 300 * time.Microsecond
	}
	if o.MaxPictures <= 0 {
		o.MaxPictures = 256
	}
	if o.MaxBytes <= 0 {
		o.MaxBytes = 64 << 20
	}
	if o.Batches <= 0 {
		o.Batches = 2
	}
	g := &Gatherer{backend: backend, o: o}
	g.idle.L = &g.mu
	return g
}

// DecodeOne decodes a picture, in a batch with those of other callers. Where the backend fails
// the picture is decoded here. After it has returned, nothing writes to dst.
func (g *Gatherer) DecodeOne(ctx context.Context, s *l3.Samples, dst transcode.Target) error {
	w := newWaiting(l3.Job{Samples: s, Dst: dst})
	err := g.enter(ctx, w)
	switch {
	case errors.Is(err, ErrClosed):
		return s.Decode(dst)
	case err != nil:
		return err
	}
	return g.wait(ctx, w)
}

// Decode implements [l3.Backend]: the jobs are gathered with those of others.
func (g *Gatherer) Decode(ctx context.Context, jobs []l3.Job) error {
	all := make([]*waiting, len(jobs))
	for i := range jobs {
		all[i] = newWaiting(jobs[i])
	}
	if err := g.enter(ctx, all...); err != nil {
		return err
	}
	for i, w := range all {
		jobs[i].Err = g.wait(ctx, w)
	}
	return ctx.Err()
}

func newWaiting(job l3.Job) *waiting {
	return &waiting{job: job, size: bytesOf(job.Samples), done: make(chan struct{})}
}

// bytesOf is how many bytes the samples of a picture take.
func bytesOf(s *l3.Samples) int64 {
	return int64(s.Width) * int64(s.Height) * int64(s.Mode.Channels()*s.Mode.Depth()/8)
}

// enter queues pictures, and begins a batch if there is a reason to. The batch runs on this
// goroutine, so that a picture that comes alone costs no switch.
func (g *Gatherer) enter(ctx context.Context, all ...*waiting) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	g.mu.Lock()
	if g.closed {
		g.mu.Unlock()
		return ErrClosed
	}
	for _, w := range all {
		g.queue = append(g.queue, w)
		g.bytes += w.size
	}
	full := len(g.queue) >= g.o.MaxPictures || g.bytes >= g.o.MaxBytes
	var batch []*waiting
	switch {
	case len(all) == 0 || g.running >= g.o.Batches:
	case g.running == 0 || full || g.o.Window < 0:
		batch = g.begin()
	case !g.armed:
		g.armed = true
		time.AfterFunc(g.o.Window, g.expire)
	}
	g.mu.Unlock()
	if batch != nil {
		g.decode(batch)
		if next := g.next(); next != nil {
			go g.work(next)
		}
	}
	return nil
}

// expire ends a Window.
func (g *Gatherer) expire() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.armed = false
	if g.running < g.o.Batches && len(g.queue) > 0 {
		go g.work(g.begin())
	}
}

// begin makes a batch of what is queued, under the lock.
func (g *Gatherer) begin() []*waiting {
	g.running++
	return g.take()
}

// work decodes a batch, and then what came meanwhile.
func (g *Gatherer) work(batch []*waiting) {
	for batch != nil {
		g.decode(batch)
		batch = g.next()
	}
}

// next returns the pictures that came while a batch was decoded, or nil if there are none and
// the work ends.
func (g *Gatherer) next() []*waiting {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.queue) > 0 {
		return g.take()
	}
	if g.running--; g.running == 0 {
		g.idle.Broadcast()
	}
	return nil
}

// take takes a batch from the queue, under the lock.
func (g *Gatherer) take() []*waiting {
	n, size := 0, int64(0)
	for n < len(g.queue) && n < g.o.MaxPictures && (n == 0 || size+g.queue[n].size <= g.o.MaxBytes) {
		size += g.queue[n].size
		n++
	}
	batch := g.queue[:n:n]
	g.queue = g.queue[n:]
	g.bytes -= size
	return batch
}

// decode decodes a batch. A panic of the backend becomes the error of its pictures:
// there is more than one caller that waits.
func (g *Gatherer) decode(batch []*waiting) {
	jobs := make([]l3.Job, len(batch))
	for i, w := range batch {
		jobs[i] = w.job
	}
	// The end of one caller's context must not end the others' pictures.
	err := func() (err error) {
		defer func() {
			if r := recover(); r != nil {
				for i := range jobs {
					jobs[i].Err = transcode.Errorf(transcode.ErrInternal, "L3: decoding a batch: %v", r)
				}
			}
		}()
		return g.backend.Decode(context.Background(), jobs)
	}()
	for i, w := range batch {
		w.job.Err, w.lost = jobs[i].Err, err
		close(w.done)
	}
}

// wait returns what became of a picture. One that is being decoded is waited for
// even when the caller has given up, since its target is written to.
func (g *Gatherer) wait(ctx context.Context, w *waiting) error {
	select {
	case <-w.done:
	case <-ctx.Done():
		if g.forget(w) {
			return ctx.Err()
		}
		<-w.done
	}
	if w.lost != nil {
		return w.job.Samples.Decode(w.job.Dst)
	}
	return w.job.Err
}

// forget takes a picture out of the queue; false means that it is not there.
func (g *Gatherer) forget(w *waiting) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := range g.queue {
		if g.queue[i] == w {
			g.queue = append(g.queue[:i:i], g.queue[i+1:]...)
			g.bytes -= w.size
			return true
		}
	}
	return false
}

// Close waits for what is queued, and closes the backend.
func (g *Gatherer) Close() error {
	g.mu.Lock()
	already := g.closed
	g.closed = true
	for g.running > 0 {
		g.idle.Wait()
	}
	g.mu.Unlock()
	if already {
		return nil
	}
	return g.backend.Close()
}
