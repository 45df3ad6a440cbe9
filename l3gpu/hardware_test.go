package l3gpu

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/pipefs/pipefs/internal/pictures"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/l3"
)

// hardware is the GPU of this machine. It is no oracle that could be installed, so
// that one does without where there is none.
func hardware(t testing.TB, o Options) *Backend {
	t.Helper()
	b, err := Open(o)
	if errors.Is(err, ErrNoDriver) || errors.Is(err, ErrNoDevice) {
		t.Skip(err)
	}
	testenv.Must(t, err)
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// TestHardware decodes on a real GPU what the other tests decode on others.
func TestHardware(t *testing.T) {
	b := hardware(t, Options{})
	t.Log(b.Info())
	for range 20 {
		wantLikeCPU(t, b, 7)
	}
	all := allPictures(t)
	g := Gather(nopClose{b}, GatherOptions{})
	var work sync.WaitGroup
	for i := range 32 {
		work.Go(func() {
			for j := range 100 {
				p := all[(i*7+j)%len(all)]
				dst := interleaved(p.samples.Header)
				if err := g.DecodeOne(t.Context(), p.samples, dst); err != nil || !bytes.Equal(dst.Pix, p.px.Pix) {
					t.Errorf("%s: %v, or another picture", p.name, err)
				}
			}
		})
	}
	work.Wait()
	if s := b.Stats(); s.Failures != 0 || s.Lost {
		t.Errorf("%+v", s)
	}
	c, err := Compare(t.Context(), b, l3.CPU{Workers: b.o.Workers}, CompareOptions{})
	t.Log(c, err)
}

// nopClose is a backend that somebody else closes.
type nopClose struct{ l3.Backend }

func (nopClose) Close() error { return nil }

// photograph is about as noisy as one.
func photograph(b *testing.B, width, height int, o l3.Options) *l3.Samples {
	px := pictures.Pixels(transcode.ModeRGB, width, height)
	return opened(b, px, o)
}

// BenchmarkHardware decodes batches on a real GPU.
func BenchmarkHardware(b *testing.B) {
	const width, height = 500, 375
	for _, mode := range []l3.Mode{l3.Dense, l3.Fast, l3.V1} {
		s := photograph(b, width, height, l3.Options{Mode: mode})
		for _, n := range []int{1, 16, 64, 256, 1024} {
			size := n * width * height * 3
			jobs := make([]l3.Job, n)
			for i := range jobs {
				jobs[i] = l3.Job{Samples: s, Dst: interleaved(s.Header)}
			}
			b.Run(fmt.Sprintf("mode=%v/pictures=%d", mode, n), func(b *testing.B) {
				gpu := hardware(b, Options{Memory: 1 << 30})
				b.SetBytes(int64(size))
				for b.Loop() {
					testenv.Must(b, gpu.Decode(b.Context(), jobs))
				}
				s := gpu.Stats()
				b.ReportMetric(float64(s.Bytes)/s.Busy.Seconds()/1e9, "busy-GB/s")
			})
		}
	}
}
