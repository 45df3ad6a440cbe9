package resample

import (
	"context"
	"sync"

	"github.com/pipefs/pipefs/transcode"
)

// Image is 8-bit pixels in memory, all channels of a pixel together. Rows are Stride bytes
// apart; what lies between them is neither used nor written.
type Image struct {
	Pix                   []byte
	Stride, Width, Height int
}

// Of returns the pixels of a picture.
func Of(px *transcode.Pixels) Image {
	return Image{Pix: px.Pix, Stride: px.RowBytes(), Width: px.Width, Height: px.Height}
}

// Box returns a rectangle of a picture of so many channels, in the same memory. It must lie
// in it.
func (m Image) Box(x, y, width, height, channels int) Image {
	return Image{Pix: m.Pix[y*m.Stride+x*channels:], Stride: m.Stride, Width: width, Height: height}
}

// fits says whether there are all rows of so many channels.
func (m Image) fits(channels int) bool {
	row := m.Width * channels
	return m.Width > 0 && m.Height > 0 && m.Stride >= row && len(m.Pix) >= (m.Height-1)*m.Stride+row
}

// Scale makes dst of src, which have the same mode, L, LA, RGB or RGBA, and do not overlap:
// src is scaled to dst's size, and mirrored left to right if that is asked for. Colours count
// as much as they are opaque. dst is not complete if there is an error, which is ctx's, or
// ErrInternal for another mode and for memory that is too small.
func Scale(ctx context.Context, dst, src Image, mode transcode.Mode, f Filter, mirror bool) error {
	switch mode {
	case transcode.ModeL, transcode.ModeLA, transcode.ModeRGB, transcode.ModeRGBA:
	default:
		return transcode.Errorf(transcode.ErrInternal, "resampling of mode %v", mode)
	}
	channels := mode.Channels()
	if !dst.fits(channels) || !src.fits(channels) {
		return transcode.Errorf(transcode.ErrInternal, "resampling from %dx%d to %dx%d: memory too small", src.Width, src.Height, dst.Width, dst.Height)
	}
	t := task{
		dst: dst, src: src, channels: channels, mirror: mirror,
		// A picture that has the size already takes no detour over premultiplied colours.
		alpha:  mode.Alpha() && (src.Width != dst.Width || src.Height != dst.Height),
		across: weightsOf(src.Width, dst.Width, f),
		down:   weightsOf(src.Height, dst.Height, f),
	}
	s := scratches.Get().(*scratch)
	defer s.release()
	t.horizontal(s)
	if err := ctx.Err(); err != nil {
		return err
	}
	t.vertical(s)
	return nil
}

// task is one call of Scale.
type task struct {
	dst, src      Image
	channels      int
	mirror, alpha bool
	across, down  *weights
	stride        int // of the rows between the passes
}

// scratch is memory for one task: what lies between the passes, and a few rows before them.
type scratch struct{ between, rows []byte }

// mostKept is how much of that is kept for other tasks.
const mostKept = 16 << 20

var scratches = sync.Pool{New: func() any { return new(scratch) }}

func (s *scratch) release() {
	if cap(s.between)+cap(s.rows) <= mostKept {
		scratches.Put(s)
	}
}

// resized returns memory of n bytes, of any content.
func resized(b *[]byte, n int) []byte {
	if cap(*b) < n {
		*b = make([]byte, n)
	}
	*b = (*b)[:n]
	return *b
}

func (t *task) verticalAccelerated() bool {
	return accelerated && t.down.packed.words != nil && t.dst.Width*t.channels >= columns
}

// horizontalAccelerated is false for grey with alpha, which is rare.
func (t *task) horizontalAccelerated() bool {
	return accelerated && t.across.packed.words != nil && t.channels != 2
}

const (
	// columns is how many bytes of a row a kernel of the vertical pass makes at a time.
	columns = 32
	// margin is how many bytes more than asked for kernels may read or write behind a row.
	margin = 64
)

// horizontal fills the rows between the passes.
func (t *task) horizontal(s *scratch) {
	width := t.dst.Width * t.channels
	t.stride = (width+columns-1)/columns*columns + margin
	group := rowsAtOnce(t.channels)
	rows := (t.src.Height + group - 1) / group * group
	if t.verticalAccelerated() {
		rows = max(rows, t.down.packed.reach)
	}
	between := resized(&s.between, rows*t.stride)
	in := t.src.Width * t.channels
	if !t.horizontalAccelerated() {
		for y := range t.src.Height {
			from := t.src.Pix[y*t.src.Stride:][:in]
			if t.alpha {
				to := resized(&s.rows, in)
				premultiply(to, from, t.channels)
				from = to
			}
			horizontalGo(between[y*t.stride:][:width], from, t.across, t.channels, t.mirror)
		}
		return
	}
	p := &t.across.packed
	reach := max(p.reach*t.channels+margin, in) // what a kernel may read of a row
	for y := 0; y < t.src.Height; y += group {
		from, stride := t.src.Pix[y*t.src.Stride:], t.src.Stride
		if t.alpha || len(from) < (group-1)*stride+reach {
			from, stride = t.copied(s, y, group, reach), reach
		}
		horizontalRows(between[y*t.stride:], t.stride, from, stride, t.across, t.channels, t.mirror)
	}
}

// copied returns a group of rows in memory of their own, stride bytes apart.
func (t *task) copied(s *scratch, y, group, stride int) []byte {
	in := t.src.Width * t.channels
	b := resized(&s.rows, group*stride)
	for i := range min(group, t.src.Height-y) {
		from, to := t.src.Pix[(y+i)*t.src.Stride:][:in], b[i*stride:]
		if t.alpha {
			premultiply(to, from, t.channels)
		} else {
			copy(to, from)
		}
	}
	return b
}

// vertical makes the result of the rows between the passes.
func (t *task) vertical(s *scratch) {
	width := t.dst.Width * t.channels
	fast := t.verticalAccelerated()
	for y := range t.dst.Height {
		to := t.dst.Pix[y*t.dst.Stride:][:width]
		if fast {
			verticalRow(to, s.between, t.stride, t.down, y)
		} else {
			verticalGo(to, s.between, t.stride, t.down, y)
		}
		if t.alpha {
			unpremultiply(to, t.channels)
		}
	}
}
