package transcode

import (
	"context"
	"errors"
	"fmt"

	"github.com/pipefs/pipefs/internal/account"
	"github.com/pipefs/pipefs/internal/cgroup"
)

// Limits bounds what hostile input may cost. The zero value of each field means
// its default. A file over a limit is ErrUnsupported: it is not broken, and with
// a higher limit it can be read.
type Limits struct {
	// MaxFile is the longest file that is read as a sample, in bytes: it is read
	// into memory as a whole. Default: DefaultMaxFile.
	MaxFile int64
	// MaxPixels is the largest width times height that is decoded. Default:
	// DefaultMaxPixels.
	MaxPixels int64
	// MaxScans and MaxSegments are carried to package jpeg, which defines them and
	// their defaults: the most scans a JPEG may have, and the most segments that
	// are none.
	MaxScans, MaxSegments int
}

// DefaultMaxPixels is twice the size of the largest pictures in common datasets
// (satellite scenes of 10,000 by 10,000); an RGB picture of that size takes
// 600 MB.
const DefaultMaxPixels = 200 << 20

// DefaultMaxFile is larger than the pixels of the largest picture that
// DefaultMaxPixels allows, and so larger than nearly every file of one.
const DefaultMaxFile = 1 << 30

// CheckFile returns an error unless a file of size bytes is within the limits.
func (l Limits) CheckFile(size int64) error {
	limit := l.MaxFile
	if limit == 0 {
		limit = DefaultMaxFile
	}
	if size > limit {
		return Errorf(ErrUnsupported, "file of %d bytes, more than %d; --max-file raises the limit", size, limit)
	}
	return nil
}

// CheckSize returns an error unless a picture of width by height pixels is
// within the limits. Both sides must be positive.
func (l Limits) CheckSize(width, height int) error {
	limit := l.MaxPixels
	if limit == 0 {
		limit = DefaultMaxPixels
	}
	if width <= 0 || height <= 0 {
		return Errorf(ErrBad, "picture of %d by %d pixels", width, height)
	}
	if int64(width) > limit/int64(height) {
		return Errorf(ErrUnsupported, "picture of %d by %d pixels, more than %d; --max-pixels raises the limit", width, height, limit)
	}
	return nil
}

// The four kinds of codec error. Every error that a codec returns wraps exactly
// one of them, so that a caller can tell a broken file from a file that this
// program cannot read, and both from a bug of ours.
var (
	// ErrBad marks data that violates its own format.
	ErrBad = errors.New("bad data")
	// ErrUnsupported marks data that is valid as far as we can tell, but of a
	// flavour that the codec does not handle, or larger than a limit allows.
	ErrUnsupported = errors.New("unsupported")
	// ErrTruncated marks data that ends before its format says it should.
	ErrTruncated = errors.New("truncated")
	// ErrInternal marks a broken promise of ours, never of the input.
	ErrInternal = errors.New("internal error")
)

// Errorf formats an error of one of the four kinds. The kind's own text comes
// first: "truncated: scan 3 ends at byte 811".
func Errorf(kind error, format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{kind}, args...)...)
}

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
	var spent account.Spent
	lap := spent.Lap()
	give, err = cgroup.Work().Take(ctx, size)
	lap.End(account.Memory)
	account.From(ctx).Add(&spent)
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
