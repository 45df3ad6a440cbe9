package l3gpu

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/l3"
)

// CompareOptions are those of Compare. The zero value of each field means its
// default.
type CompareOptions struct {
	// Pictures is how many are decoded at once, as many as in use later. Default: 64.
	Pictures int
	// Within is how long it may take. The first round is always ended. Default:
	// 200 ms.
	Within time.Duration
}

// Comparison says which of two backends is faster from memory to memory, copies to
// the GPU and back included.
type Comparison struct {
	Name     string  // of the GPU
	GPU, CPU float64 // bytes of samples a second
	Pictures int     // in a batch
	Rounds   int     // of which the median was taken
}

// Faster reports whether the GPU is worth using.
func (c Comparison) Faster() bool { return c.GPU > c.CPU }

// String is the comparison for a log line.
func (c Comparison) String() string {
	verdict := "the processor is used"
	if c.Faster() {
		verdict = "the GPU is used"
	}
	return fmt.Sprintf("%s: %.1f GB/s of samples, the processor %.1f GB/s: %s", c.Name, c.GPU/1e9, c.CPU/1e9, verdict)
}

// Compare decodes a batch of generated pictures with both backends by turns. It returns an
// error where the GPU decodes nothing, or other samples than the processor.
func Compare(ctx context.Context, gpu, cpu l3.Backend, o CompareOptions) (Comparison, error) {
	if o.Pictures <= 0 {
		o.Pictures = 64
	}
	if o.Within <= 0 {
		o.Within = 200 * time.Millisecond
	}
	c := Comparison{Name: "GPU", Pictures: o.Pictures}
	if named, ok := gpu.(interface{ Info() string }); ok {
		c.Name = named.Info()
	}
	deadline := time.Now().Add(o.Within)
	want, got, size, err := generated(o.Pictures)
	if err != nil {
		return c, err
	}
	// The first round takes memory, and its result is compared.
	for _, side := range []struct {
		backend l3.Backend
		jobs    []l3.Job
	}{{cpu, want}, {gpu, got}} {
		if _, err := timed(ctx, side.backend, side.jobs); err != nil {
			return c, err
		}
	}
	for i := range want {
		if !bytes.Equal(want[i].Dst.Pix, got[i].Dst.Pix) {
			return c, transcode.Errorf(transcode.ErrInternal, "%s decodes other samples than the processor; it is not used", c.Name)
		}
	}
	if counted, ok := gpu.(interface{ Stats() Stats }); ok {
		if s := counted.Stats(); s.Failures > 0 || s.Pictures == 0 {
			return c, fmt.Errorf("%s failed to decode a batch; it is not used", c.Name)
		}
	}
	var onGPU, onCPU []time.Duration
	for len(onGPU) == 0 || len(onGPU) < 5 && time.Now().Before(deadline) {
		g, err := timed(ctx, gpu, got)
		if err != nil {
			return c, err
		}
		p, err := timed(ctx, cpu, want)
		if err != nil {
			return c, err
		}
		onGPU, onCPU = append(onGPU, g), append(onCPU, p)
	}
	c.Rounds = len(onGPU)
	c.GPU, c.CPU = float64(size)/median(onGPU).Seconds(), float64(size)/median(onCPU).Seconds()
	return c, nil
}

func timed(ctx context.Context, b l3.Backend, jobs []l3.Job) (time.Duration, error) {
	began := time.Now()
	if err := b.Decode(ctx, jobs); err != nil {
		return 0, err
	}
	took := time.Since(began)
	for i := range jobs {
		if jobs[i].Err != nil {
			return 0, jobs[i].Err
		}
	}
	return max(took, 1), nil
}

func median(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)/2]
}

// generated makes two batches of the same pictures, which are of a common size and
// about as noisy as photographs, and how many bytes of samples each has.
func generated(n int) (a, b []l3.Job, size int64, err error) {
	const width, height, channels = 400, 300, 3
	px := &transcode.Pixels{Width: width, Height: height, Mode: transcode.ModeRGB, Pix: make([]byte, width*height*channels)}
	noise := uint32(1)
	for i := range px.Pix {
		noise = noise*1664525 + 1013904223
		x, y := i/channels%width, i/channels/width
		px.Pix[i] = byte(x/3 + y/2 + 30*(i%channels) + int(noise>>24)%9 + (x/29+y/31)%3*20)
	}
	file, err := l3.Encode(px, l3.Options{})
	if err != nil {
		return nil, nil, 0, err
	}
	s, err := l3.Open(file, transcode.Limits{})
	if err != nil {
		return nil, nil, 0, err
	}
	for range n {
		for _, jobs := range []*[]l3.Job{&a, &b} {
			pix := make([]byte, len(px.Pix))
			*jobs = append(*jobs, l3.Job{Samples: s, Dst: transcode.Interleaved(pix, width, channels, 1)})
		}
	}
	return a, b, int64(n) * int64(len(px.Pix)), nil
}
