package resample

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/internal/pillow"
)

// TestRefuses wants errors, and nothing worse, for what cannot be scaled.
func TestRefuses(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	src := Of(pillow.Sample(transcode.ModeRGB, 40, 30))
	dst := Image{Pix: make([]byte, 3*20*20), Stride: 60, Width: 20, Height: 20}
	short, narrow, none := dst, dst, dst
	short.Pix = short.Pix[1:]
	narrow.Stride--
	none.Width = 0
	for name, err := range map[string]error{
		"16 bits":     Scale(t.Context(), dst, src, transcode.ModeI16, Bilinear, false),
		"a palette":   Scale(t.Context(), dst, src, transcode.ModeP, Bilinear, false),
		"a short dst": Scale(t.Context(), short, src, transcode.ModeRGB, Bilinear, false),
		"a narrow":    Scale(t.Context(), narrow, src, transcode.ModeRGB, Bilinear, false),
		"no width":    Scale(t.Context(), none, src, transcode.ModeRGB, Bilinear, false),
		"a short src": Scale(t.Context(), dst, src.Box(1, 0, 40, 30, 3), transcode.ModeRGB, Bilinear, false),
	} {
		if !errors.Is(err, transcode.ErrInternal) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := Scale(ctx, dst, src, transcode.ModeRGB, Bilinear, false); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller that went: %v", err)
	}
}

// TestNoAllocation wants memory to be used again, also by several at once.
func TestNoAllocation(t *testing.T) {
	src := Of(pillow.Sample(transcode.ModeRGB, 200, 150)).Box(10, 20, 150, 100, 3)
	scale := func(dst []byte) {
		to := Image{Pix: dst, Stride: 3 * 64, Width: 64, Height: 64}
		testenv.Must(t, Scale(t.Context(), to, src, transcode.ModeRGB, Bicubic, true))
	}
	want := make([]byte, 3*64*64)
	scale(want)
	// A mean, rounded down: the collector may empty the pool.
	if n := testing.AllocsPerRun(200, func() { scale(want) }); n > 0 && !testenv.Race {
		t.Errorf("%v allocations", n)
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			got := make([]byte, len(want))
			for range 50 {
				scale(got)
			}
			if string(got) != string(want) {
				t.Error("another result")
			}
		})
	}
	all.Wait()
}
