package transcode

import (
	"context"
	"errors"
	"fmt"

	"github.com/pipefs/pipefs/internal/cgroup"
)

// Scratcher is a Decoder that takes more memory than its result does.
type Scratcher interface {
	// Scratch is about how many bytes more a file takes whose header says what info says. parts: it
	// is taken apart, and not decoded to pixels.
	Scratch(src []byte, info Info, parts bool) int64
}

// bytes is the length of pixels of a shape.
func (s Shape) bytes() int64 {
	return int64(s.Width) * int64(s.Height) * int64(s.Mode.Channels()*s.Type.Size())
}

// Work is about how many bytes of memory it takes to run the steps after the first n on src, which
// does not count: the results of all of them, as the garbage collector may be late. Without src it is
// what the shapes tell.
func (p Plan) Work(n int, src []byte) (bytes int64) {
	in, steps := Shape{Info: p.source}, p.steps[n:]
	if n > 0 {
		in = p.steps[n-1].Out
	}
	f, filled := p.filling(steps)
	for i := range steps {
		s, out := &steps[i], steps[i].Out
		decoder := p.registry.decoder(p.source.Format)
		if i+1 < len(steps) {
			if r := steps[i+1].region(out, p.registry.limits); !r.Empty() {
				if _, ok := decoder.(RegionDecoder); !ok {
					bytes += out.bytes()
				}
				out.Width, out.Height = r.Dx(), r.Dy()
			}
		}
		if d, ok := decoder.(Scratcher); ok && s.Kind.From == Source && src != nil {
			bytes += d.Scratch(src, p.source, s.Out.Stage == Source)
		}
		switch {
		case s.Out.Stage == Source: // its result is the next src
		case filled && i+1 < len(steps) && (i > 0 || !f.planar && (out.Mode == ModeRGB || out.Mode == ModeL)):
			// the pixels lie in the file
		case s.Kind.To == File && s.Kind.Frame == nil:
			bytes += out.bytes() * 5 / 3 // memory that grows
		default:
			bytes += out.bytes()
		}
		if s.Kind.From != Source && in.Mode != out.Mode { // it is converted first
			bytes += in.bytes()/int64(in.Mode.Channels())*int64(out.Mode.Channels()) + out.bytes()
		}
		if s.Kind.From != Source && s.Kind.Effect == Resampling { // it is scaled in one direction first
			bytes += int64(out.Width) * int64(in.Height) * int64(out.Mode.Channels())
		}
		in = out
	}
	return bytes
}

// reserve waits for memory for work on the sample.
func (p Plan) reserve(ctx context.Context, size int64) (give func(), err error) {
	give, err = cgroup.Work().Take(ctx, size)
	if errors.Is(err, cgroup.ErrMemory) {
		err = fmt.Errorf("%v of %d by %d pixels: %w; with --max-pixels %d views show it unchanged", p.source.Format, p.source.Width, p.source.Height, err, p.source.Width*p.source.Height-1)
	}
	return give, err
}

// Split is [Kind.Split] of k, within the memory that there is.
func (r *Registry) Split(ctx context.Context, k *Kind, src []byte, reconstruct bool) (Split, error) {
	give, err := r.takingApart(ctx, src)
	if err != nil {
		return Split{}, err
	}
	defer give()
	return k.Split(ctx, src, r.limits, reconstruct)
}

// Restore is [Kind.Restore] of k, within the memory that there is.
func (r *Registry) Restore(ctx context.Context, k *Kind, whole, reconstruction []byte) ([]byte, error) {
	give, err := r.takingApart(ctx, whole)
	if err != nil {
		return nil, err
	}
	defer give()
	return k.Restore(ctx, whole, reconstruction, r.limits)
}

// takingApart waits for memory for the parts of a file.
func (r *Registry) takingApart(ctx context.Context, src []byte) (give func(), err error) {
	info, _ := r.ProbeBytes(src) // who needs the header will say what is wrong with it
	var bytes int64
	if d, ok := r.decoder(info.Format).(Scratcher); ok {
		bytes = d.Scratch(src, info, true)
	}
	return Plan{source: info}.reserve(ctx, bytes)
}
