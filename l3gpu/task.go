package l3gpu

import (
	"context"

	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/l3"
)

// task is a picture, and where its samples go.
type task struct {
	samples *l3.Samples
	dst     l3.Target
	// address is where dst.Pix would begin, for samples that stay on the GPU as numbers; 0
	// otherwise.
	address uint64
	numbers Numbers
	err     error
}

// check checks the target, as the processor does.
func (t *task) check() error {
	if t.address != 0 {
		return nil // DecodePlaced has checked it
	}
	s := t.samples
	return t.dst.Check(s.Width, s.Height, s.Mode.Channels(), s.Mode.Depth()/8)
}

// onCPU decodes it without the GPU.
func (t *task) onCPU() error {
	if t.address == 0 {
		return t.samples.Decode(t.dst)
	}
	// The GPU refused it: the processor's error counts, and no numbers are written.
	s := t.samples
	n, size := s.Mode.Channels(), s.Mode.Depth()/8
	pix := make([]byte, s.Width*s.Height*n*size)
	if err := s.Decode(l3.Interleaved(pix, s.Width, n, size)); err != nil {
		return err
	}
	return transcode.Errorf(transcode.ErrUnsupported, "L3 picture of %d×%d, which the GPU does not decode within its memory", s.Width, s.Height)
}

// decode does tasks, on the GPU as far as possible. The error is the end of ctx,
// ErrClosed, or that of a GPU which fails where numbers are to stay there.
func (b *Backend) decode(ctx context.Context, tasks []task) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	e, err := b.enter()
	if err != nil {
		return err
	}
	stays := len(tasks) > 0 && tasks[0].address != 0
	if e == nil {
		if stays {
			return ErrLost
		}
		return b.onCPU(ctx, tasks, nil)
	}
	r := run{b: b, e: e, ctx: ctx, tasks: tasks}
	failure := r.decode()
	b.leave(failure)
	if err := ctx.Err(); err != nil {
		return err
	}
	if failure != nil && stays {
		return failure // the processor writes nothing there
	}
	b.rejects.Add(int64(len(r.rest)))
	if len(r.rest) == 0 {
		return nil
	}
	return b.onCPU(ctx, tasks, r.rest)
}

// onCPU does tasks on the processor: those of a list, or all without one.
func (b *Backend) onCPU(ctx context.Context, tasks []task, list []int) error {
	n := len(tasks)
	if list != nil {
		n = len(list)
	}
	parallel(b.o.Workers, n, func(i int) {
		if list != nil {
			i = list[i]
		}
		if ctx.Err() == nil {
			tasks[i].err = tasks[i].onCPU()
		}
	})
	return ctx.Err()
}
