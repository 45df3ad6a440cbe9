package l3gpu

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/l3"
)

// StartOptions are those of Start. Options.Log is told what was decided.
type StartOptions struct {
	Options
	Gather GatherOptions
	// Force uses the GPU without a comparison, and makes it an error if there is none.
	Force bool
	// Compare is how the decision is made without Force.
	Compare CompareOptions
	// After is how many bytes of samples are decoded before a GPU is looked for, without
	// Force: it takes some hundred megabytes of the GPU's memory to use it at all.
	// Default: 64 MiB; negative means at once.
	After int64

	// compare is another Compare, in tests.
	compare func(context.Context, l3.Backend, l3.Backend, CompareOptions) (Comparison, error)
}

// Starting is a [l3.Backend] that decodes on the processor at first. When the GPU was opened
// and found to be faster, it decodes there, and gathers the pictures of several callers.
type Starting struct {
	o       StartOptions
	cpu     l3.CPU
	before  atomic.Int64 // bytes of samples until the GPU is looked for
	look    sync.Once
	ctx     context.Context
	gpu     atomic.Pointer[Gatherer]
	backend atomic.Pointer[Backend] // the one of gpu
	cancel  context.CancelFunc
	begun   sync.WaitGroup
	open    func() (*Backend, error) // the GPU, once
	close   sync.Once
}

var _ l3.Backend = (*Starting)(nil)

// Start returns a backend at once. Opening a GPU takes a good part of a second, and much longer
// when its driver sees the program for the first time. It is opened in the background, and,
// unless it is forced, only when there was something to decode.
func Start(o StartOptions) (*Starting, error) {
	defaults, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	o.Options = defaults
	if o.compare == nil {
		o.compare = Compare
	}
	if o.After == 0 {
		o.After = defaultAfter
	}
	s := &Starting{o: o, cpu: l3.CPU{Workers: o.Workers}}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.open = sync.OnceValues(func() (*Backend, error) {
		if s.ctx.Err() != nil {
			return nil, ErrClosed
		}
		return Open(o.Options)
	})
	if o.Force {
		b, err := s.open()
		if err != nil {
			s.cancel()
			return nil, err
		}
		o.Log.Info("L3 files are decoded on the GPU", "gpu", b.Info(), "memory", o.Memory)
		s.use(b, o.Gather)
		return s, nil
	}
	s.before.Store(o.After)
	s.count(0)
	return s, nil
}

const defaultAfter = 64 << 20

// count counts what the processor decodes, until it is worth looking for a GPU.
func (s *Starting) count(bytes int64) {
	if s.before.Load() > 0 && s.before.Add(-bytes) > 0 || s.o.Force || s.ctx.Err() != nil {
		return
	}
	s.look.Do(func() { s.begun.Go(func() { s.begin(s.ctx, s.o) }) })
}

// begin opens the GPU and decides.
func (s *Starting) begin(ctx context.Context, o StartOptions) {
	b, err := s.open()
	switch {
	case errors.Is(err, ErrClosed):
		return
	case errors.Is(err, ErrNoDriver) || errors.Is(err, ErrNoDevice):
		o.Log.Info("L3 files are decoded on the processor", "cause", err)
		return
	case err != nil:
		o.Log.Warn("L3 files are decoded on the processor", "cause", err)
		return
	}
	c, err := o.compare(ctx, b, s.cpu, o.Compare)
	switch {
	case err != nil:
		if ctx.Err() == nil {
			o.Log.Warn("L3 files are decoded on the processor", "cause", err)
		}
	case c.Faster():
		o.Log.Info("L3 files are decoded on the GPU", "compared", c.String(), "memory", o.Memory)
		s.use(b, o.Gather)
		return
	default:
		o.Log.Info("L3 files are decoded on the processor", "compared", c.String())
	}
	if err := b.Close(); err != nil {
		o.Log.Warn("the GPU was not given back", "cause", err)
	}
}

func (s *Starting) use(b *Backend, o GatherOptions) {
	s.backend.Store(b)
	s.gpu.Store(Gather(b, o))
}

// gatherer is nil where there is nothing to gather for.
func (s *Starting) gatherer() *Gatherer {
	g := s.gpu.Load()
	if g == nil || s.backend.Load().lost.Load() {
		return nil
	}
	return g
}

// DecodeOne decodes a picture, gathered with what others want at the time.
func (s *Starting) DecodeOne(ctx context.Context, p *l3.Samples, dst transcode.Target) error {
	if g := s.gatherer(); g != nil {
		return g.DecodeOne(ctx, p, dst)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	s.count(bytesOf(p))
	return p.Decode(dst)
}

// Decode implements [l3.Backend].
func (s *Starting) Decode(ctx context.Context, jobs []l3.Job) error {
	g := s.gatherer()
	switch {
	case g == nil:
		for i := range jobs {
			s.count(bytesOf(jobs[i].Samples))
		}
		return s.cpu.Decode(ctx, jobs)
	case len(jobs) == 1:
		jobs[0].Err = nil
		err := g.DecodeOne(ctx, jobs[0].Samples, jobs[0].Dst)
		if err != nil && ctx.Err() != nil {
			return ctx.Err()
		}
		jobs[0].Err = err
		return nil
	}
	err := g.Decode(ctx, jobs)
	if errors.Is(err, ErrClosed) {
		return s.cpu.Decode(ctx, jobs)
	}
	return err
}

// Stats are those of the GPU; ok is false where it is not used.
func (s *Starting) Stats() (stats Stats, ok bool) {
	if b := s.backend.Load(); b != nil {
		return b.Stats(), true
	}
	return Stats{}, false
}

// Close gives the GPU back. Decoding then goes on, on the processor.
func (s *Starting) Close() (err error) {
	s.close.Do(func() {
		s.cancel()
		s.look.Do(func() {}) // no GPU is looked for from now on
		s.begun.Wait()
		if g := s.gpu.Load(); g != nil {
			err = g.Close()
		}
		// It may be being opened: wait for the end of that.
		if b, _ := s.open(); b != nil {
			err = errors.Join(err, b.Close())
		}
	})
	return err
}
