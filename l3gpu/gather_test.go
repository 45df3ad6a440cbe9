package l3gpu

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pipefs/pipefs/internal/pictures"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/l3"
)

// scripted is a backend that takes a while, and keeps the sizes of its batches.
type scripted struct {
	took    time.Duration
	fail    error
	panics  bool
	mu      sync.Mutex
	batches []int
	running atomic.Int32
	most    int32
	closed  bool
}

func (b *scripted) Decode(ctx context.Context, jobs []l3.Job) error {
	b.mu.Lock()
	b.batches = append(b.batches, len(jobs))
	b.most = max(b.most, b.running.Add(1))
	b.mu.Unlock()
	defer b.running.Add(-1)
	if b.panics {
		panic("out of cheese")
	}
	time.Sleep(b.took)
	if b.fail != nil {
		return b.fail
	}
	return l3.CPU{}.Decode(ctx, jobs)
}

func (b *scripted) Close() error {
	b.closed = true
	return nil
}

func TestGatherAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &scripted{took: time.Millisecond}
		g := Gather(b, GatherOptions{Window: time.Hour})
		px := pictures.Pixels(transcode.ModeRGB, 20, 10)
		s := opened(t, px, l3.Options{})
		began := time.Now()
		for range 3 {
			dst := interleaved(s.Header)
			if err := g.DecodeOne(t.Context(), s, dst); err != nil || !bytes.Equal(dst.Pix, px.Pix) {
				t.Fatalf("%v, or another picture", err)
			}
		}
		if took := time.Since(began); took != 3*b.took {
			t.Errorf("a lone reader waited: %v", took)
		}
		if err := g.Close(); err != nil || !b.closed {
			t.Errorf("%v, closed %v", err, b.closed)
		}
		dst := interleaved(s.Header)
		if err := g.DecodeOne(t.Context(), s, dst); err != nil || !bytes.Equal(dst.Pix, px.Pix) {
			t.Errorf("after Close: %v, or another picture", err)
		}
		if err := g.Decode(t.Context(), []l3.Job{{Samples: s, Dst: dst}}); !errors.Is(err, ErrClosed) {
			t.Errorf("as a backend, after Close: %v", err)
		}
	})
}

// TestGatherCompany wants those who come while a batch runs to be the next one.
func TestGatherCompany(t *testing.T) {
	for name, c := range map[string]struct {
		o    GatherOptions
		want []int
		took time.Duration // until all are done
	}{
		"one at a time":  {GatherOptions{Batches: 1}, []int{1, 9}, 20 * time.Millisecond},
		"window":         {GatherOptions{}, []int{1, 9}, 10*time.Millisecond + 300*time.Microsecond},
		"no window":      {GatherOptions{Window: -1}, []int{1, 1, 8}, 20 * time.Millisecond},
		"few":            {GatherOptions{Batches: 1, MaxPictures: 4}, []int{1, 4, 4, 1}, 40 * time.Millisecond},
		"few bytes":      {GatherOptions{Batches: 1, MaxBytes: 1300}, []int{1, 2, 2, 2, 2, 1}, 60 * time.Millisecond},
		"full, no timer": {GatherOptions{MaxPictures: 3, Window: time.Hour}, []int{1, 3, 3, 3}, 20 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := &scripted{took: 10 * time.Millisecond}
				g := Gather(b, c.o)
				defer g.Close()
				s := opened(t, pictures.Pixels(transcode.ModeRGB, 20, 10), l3.Options{})
				began := time.Now()
				var work sync.WaitGroup
				for range 10 {
					work.Go(func() {
						if err := g.DecodeOne(t.Context(), s, interleaved(s.Header)); err != nil {
							t.Error(err)
						}
					})
					synctest.Wait()
				}
				work.Wait()
				if took := time.Since(began); took != c.took {
					t.Errorf("took %v, want %v", took, c.took)
				}
				if got := b.batches; len(got) != len(c.want) {
					t.Errorf("batches of %v, want %v", got, c.want)
				} else {
					for i := range got {
						if got[i] != c.want[i] {
							t.Errorf("batches of %v, want %v", got, c.want)
						}
					}
				}
				if limit := int32(max(c.o.Batches, 2)); b.most > limit {
					t.Errorf("%d batches at once", b.most)
				}
			})
		})
	}
}

// TestGatherCancel wants a picture in the queue to be left at once, and one that is
// being decoded to be waited for.
func TestGatherCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &scripted{took: 10 * time.Millisecond}
		g := Gather(b, GatherOptions{Batches: 1})
		defer g.Close()
		s := opened(t, pictures.Pixels(transcode.ModeRGB, 20, 10), l3.Options{})
		ctx, cancel := context.WithCancel(t.Context())
		began := time.Now()
		var work sync.WaitGroup
		work.Go(func() {
			if err := g.DecodeOne(ctx, s, interleaved(s.Header)); err != nil || time.Since(began) != b.took {
				t.Errorf("in a batch: %v after %v", err, time.Since(began))
			}
		})
		synctest.Wait()
		work.Go(func() {
			if err := g.DecodeOne(ctx, s, interleaved(s.Header)); !errors.Is(err, context.Canceled) || time.Since(began) != time.Millisecond {
				t.Errorf("in the queue: %v after %v", err, time.Since(began))
			}
		})
		time.Sleep(time.Millisecond)
		cancel()
		work.Wait()
		if err := g.DecodeOne(ctx, s, interleaved(s.Header)); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled before: %v", err)
		}
		if len(b.batches) != 1 {
			t.Errorf("batches of %v", b.batches)
		}
	})
}

// TestGatherFails wants the pictures of a batch to come through when the backend
// does not work, and a panic not to leave anybody waiting.
func TestGatherFails(t *testing.T) {
	px := pictures.Pixels(transcode.ModeRGB, 20, 10)
	s := opened(t, px, l3.Options{})
	g := Gather(&scripted{fail: errors.New("fire")}, GatherOptions{})
	jobs := []l3.Job{{Samples: s, Dst: interleaved(s.Header)}, {Samples: s, Dst: interleaved(s.Header)}}
	testenv.Must(t, g.Decode(t.Context(), jobs))
	for _, j := range jobs {
		if j.Err != nil || !bytes.Equal(j.Dst.Pix, px.Pix) {
			t.Errorf("%v, or another picture", j.Err)
		}
	}
	g = Gather(&scripted{panics: true}, GatherOptions{})
	for range 3 {
		if err := g.DecodeOne(t.Context(), s, interleaved(s.Header)); !errors.Is(err, transcode.ErrInternal) {
			t.Errorf("%v", err)
		}
	}
}

// TestGatherMany runs many at once, some of whom give up.
func TestGatherMany(t *testing.T) {
	all := allPictures(t)
	b := &scripted{took: 50 * time.Microsecond}
	g := Gather(b, GatherOptions{MaxPictures: 5})
	var work sync.WaitGroup
	for i := range 16 {
		work.Go(func() {
			for j := range 40 {
				p := all[(i*7+j)%len(all)]
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+j%5*100)*time.Microsecond)
				dst := interleaved(p.samples.Header)
				err := g.DecodeOne(ctx, p.samples, dst)
				if err == nil && !bytes.Equal(dst.Pix, p.px.Pix) {
					t.Errorf("%s: another picture", p.name)
				}
				if err != nil && !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%s: %v", p.name, err)
				}
				cancel()
			}
		})
	}
	work.Wait()
	if err := g.Close(); err != nil || g.running != 0 || len(g.queue) != 0 || g.bytes != 0 {
		t.Errorf("%v; %d run, %d of %d bytes wait", err, g.running, len(g.queue), g.bytes)
	}
}

// TestPlace writes a picture as the device would, copies it, and compares with
// writing it where it belongs.
func TestPlace(t *testing.T) {
	const w, h = 7, 5
	for name, c := range map[string]struct {
		layout           transcode.Layout
		channels, sample int
		runs             int // copies that it takes
	}{
		"HWC":        {transcode.Layout{Row: 3 * w, Pixel: 3, Channel: 1}, 3, 1, 1},
		"HWC 16":     {transcode.Layout{Row: 8 * w, Pixel: 8, Channel: 2}, 4, 2, 1},
		"CHW":        {transcode.Layout{Row: w, Pixel: 1, Channel: w * h}, 3, 1, 1},
		"CHW 16":     {transcode.Layout{Row: w * 2, Pixel: 2, Channel: w * h * 2}, 3, 2, 1},
		"grey":       {transcode.Layout{Row: w, Pixel: 1, Channel: 1}, 1, 1, 1},
		"BMP":        {transcode.Layout{Base: (h-1)*24 + 2, Row: -24, Pixel: 3, Channel: -1}, 3, 1, h},
		"BMP dense":  {transcode.Layout{Base: (h-1)*21 + 2, Row: -21, Pixel: 3, Channel: -1}, 3, 1, 1},
		"header":     {transcode.Layout{Base: 100, Row: 21, Pixel: 3, Channel: 1}, 3, 1, 1},
		"RGBX":       {transcode.Layout{Row: 4 * w, Pixel: 4, Channel: 1}, 3, 1, w * h},
		"WHC":        {transcode.Layout{Row: 3, Pixel: 3 * h, Channel: 1}, 3, 1, 1},
		"planes":     {transcode.Layout{Row: 10, Pixel: 1, Channel: 100}, 3, 1, 3 * h},
		"rows CHW":   {transcode.Layout{Row: w, Pixel: 1, Channel: 100}, 3, 1, 3},
		"mirrored":   {transcode.Layout{Base: 18, Row: 21, Pixel: -3, Channel: 1}, 3, 1, 1},
		"wide apart": {transcode.Layout{Base: 7, Row: 111, Pixel: 13, Channel: 4}, 3, 2, 3 * w * h},
		"HCW":        {transcode.Layout{Row: 3 * w, Pixel: 1, Channel: w}, 3, 1, 1},
	} {
		sample := func(x, y, ch, b int) byte { return byte(1 + x + 7*y + 35*ch + 105*b) }
		write := func(t transcode.Target) {
			for y := range h {
				for x := range w {
					for ch := range c.channels {
						for b := range c.sample {
							t.Pix[t.At(x, y, ch)+b] = sample(x, y, ch, b)
						}
					}
				}
			}
		}
		want, got := transcode.Target{Layout: c.layout}, transcode.Target{Layout: c.layout}
		want.Pix, got.Pix = make([]byte, 2000), make([]byte, 2000)
		if err := want.Check(w, h, c.channels, c.sample); err != nil {
			t.Fatal(name, err)
		}
		write(want)
		p := placeFor(got, w, h, c.channels, c.sample)
		on := transcode.Target{Layout: p.layout}
		on.Pix = make([]byte, p.size)
		if err := on.Check(w, h, c.channels, c.sample); err != nil || p.size != w*h*c.channels*c.sample {
			t.Fatal(name, p.size, err)
		}
		write(on)
		p.copyTo(got.Pix, on.Pix)
		if !bytes.Equal(got.Pix, want.Pix) {
			t.Errorf("%s: other bytes", name)
		}
		if n := p.size / p.run; n != c.runs {
			t.Errorf("%s: %d copies, want %d", name, n, c.runs)
		}
	}
}
