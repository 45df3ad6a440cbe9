package l3gpu

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pipefs/pipefs/l3gpu/internal/device"
	"github.com/pipefs/pipefs/l3gpu/internal/sim/devicetest"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/l3"
)

// delayed is a backend that takes longer.
type delayed struct {
	l3.Backend
	by time.Duration
}

func (d delayed) Decode(ctx context.Context, jobs []l3.Job) error {
	time.Sleep(d.by)
	return d.Backend.Decode(ctx, jobs)
}

// wrong is a backend that writes one sample too high.
type wrong struct{ l3.Backend }

func (w wrong) Decode(ctx context.Context, jobs []l3.Job) error {
	err := w.Backend.Decode(ctx, jobs)
	jobs[len(jobs)-1].Dst.Pix[7]++
	return err
}

func TestCompare(t *testing.T) {
	cpu := l3.CPU{Workers: 2}
	for _, c := range []struct {
		gpu, cpu l3.Backend
		faster   bool
		says     string
	}{
		{cpu, delayed{cpu, 300 * time.Millisecond}, true, "the GPU is used"},
		{delayed{cpu, 300 * time.Millisecond}, cpu, false, "the processor is used"},
	} {
		got, err := Compare(t.Context(), c.gpu, c.cpu, CompareOptions{Pictures: 4})
		if err != nil || got.Faster() != c.faster || !strings.Contains(got.String(), c.says) || got.Rounds < 1 {
			t.Errorf("%v, %v", got, err)
		}
	}
	if got, err := Compare(t.Context(), wrong{cpu}, cpu, CompareOptions{Pictures: 4}); !errors.Is(err, transcode.ErrInternal) || got.Faster() {
		t.Errorf("other samples: %v, %v", got, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got, err := Compare(ctx, cpu, cpu, CompareOptions{}); !errors.Is(err, context.Canceled) || got.Faster() {
		t.Errorf("cancelled: %v, %v", got, err)
	}
	b := newBench(t, devicetest.Options{}, Options{Memory: 8 << 20})
	if got, err := Compare(t.Context(), b, cpu, CompareOptions{Pictures: 4}); err != nil || !strings.Contains(got.String(), "Test GPU, compute capability 7.5, driver for CUDA 12.4: ") {
		t.Errorf("%v, %v", got, err)
	}
	b = newBench(t, devicetest.Options{LoseAt: 1, Kind: device.ErrLost}, Options{Memory: 8 << 20})
	if got, err := Compare(t.Context(), b, cpu, CompareOptions{Pictures: 4}); err == nil || got.Faster() {
		t.Errorf("a lost GPU: %v, %v", got, err)
	}
}
