package l3gpu

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pipefs/pipefs/internal/pictures"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/l3gpu/internal/sim/devicetest"
	"github.com/pipefs/pipefs/l3gpu/internal/sim/fakecuda"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/l3"
)

// bench is a backend over a GPU for tests, with what it logged.
type bench struct {
	*Backend
	gpu *devicetest.GPU
	log *logged
}

type logged struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

// lines are the lines logged so far.
func (l *logged) lines() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Split(strings.TrimSuffix(l.b.String(), "\n"), "\n")[:strings.Count(l.b.String(), "\n")]
}

const smallMemory = 2 * slots * 128 << 10 // three slots of 128 KiB

// tryBench opens a backend, which may fail.
func tryBench(g devicetest.Options, o Options) (bench, error) {
	if g.Machine == nil {
		g.Machine = fakecuda.NewMachine()
	}
	if o.Memory == 0 {
		o.Memory = smallMemory
	}
	if o.Patience == 0 {
		o.Patience = 10 * time.Minute // a busy machine is no GPU that hangs
	}
	b := bench{gpu: devicetest.New(g), log: new(logged)}
	o.Log = slog.New(slog.NewTextHandler(b.log, nil))
	o, err := o.withDefaults()
	if err == nil {
		b.Backend, err = open(b.gpu, o)
	}
	return b, err
}

// newBench opens a backend, and checks after the test that it gave everything back.
func newBench(t testing.TB, g devicetest.Options, o Options) bench {
	t.Helper()
	b, err := tryBench(g, o)
	testenv.Must(t, err)
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		if err := b.gpu.Check(); err != nil {
			t.Error(err)
		}
		if limit := b.o.Memory; b.gpu.Peak() > limit {
			t.Errorf("took %d bytes of %d", b.gpu.Peak(), limit)
		}
	})
	return b
}

// jobsOf are jobs for pictures, as HWC.
func jobsOf(all []named) []l3.Job {
	jobs := make([]l3.Job, len(all))
	for i, p := range all {
		jobs[i] = l3.Job{Samples: p.samples, Dst: interleaved(p.samples.Header)}
	}
	return jobs
}

// wantPictures checks that jobsOf came out right.
func wantPictures(t testing.TB, all []named, jobs []l3.Job) {
	t.Helper()
	for i, p := range all {
		if jobs[i].Err != nil || !bytes.Equal(jobs[i].Dst.Pix, p.px.Pix) {
			t.Errorf("%s: %v, or another picture", p.name, jobs[i].Err)
		}
	}
}

// TestBatch decodes pictures of all kinds at once.
func TestBatch(t *testing.T) {
	b := newBench(t, devicetest.Options{}, Options{})
	all := allPictures(t)
	for range 2 {
		jobs := jobsOf(all)
		testenv.Must(t, b.Decode(t.Context(), jobs))
		wantPictures(t, all, jobs)
	}
	want := Stats{Pictures: int64(2 * len(all))}
	got := b.Stats()
	if got.Busy <= 0 {
		t.Errorf("the GPU was busy for %v", got.Busy)
	}
	got.Bytes, got.Busy = 0, 0
	if got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if err := b.Decode(t.Context(), nil); err != nil {
		t.Error(err)
	}
	if len(b.log.lines()) != 0 {
		t.Errorf("%q", b.log.lines())
	}
}

// targetsFor are all sorts of places for a picture, with what must not be touched
// between its samples.
func targetsFor(h l3.Header) map[string]transcode.Target {
	n, size := h.Mode.Channels(), sampleSize(h.Mode)
	memory := func() []byte { return bytes.Repeat([]byte{0xee}, 2*(h.Width+5)*(h.Height+5)*(n+1)*size+1000) }
	row := h.Width * n * size
	targets := map[string]transcode.Target{
		"HWC":       transcode.Interleaved(memory(), h.Width, n, size),
		"CHW":       {Pix: memory(), Layout: transcode.Layout{Row: h.Width * size, Pixel: size, Channel: h.Width * h.Height * size}},
		"header":    {Pix: memory(), Layout: transcode.Layout{Base: 129, Row: row, Pixel: n * size, Channel: size}},
		"bottom up": {Pix: memory(), Layout: transcode.Layout{Base: (h.Height-1)*(row+3) + (n-1)*size, Row: -row - 3, Pixel: n * size, Channel: -size}},
		"gaps":      {Pix: memory(), Layout: transcode.Layout{Base: 7, Row: (n + 1) * size * h.Width, Pixel: (n + 1) * size, Channel: size}},
		"mirrored":  {Pix: memory(), Layout: transcode.Layout{Base: (h.Width - 1) * n * size, Row: row, Pixel: -n * size, Channel: size}},
		"columns":   {Pix: memory(), Layout: transcode.Layout{Row: n * size, Pixel: h.Height * n * size, Channel: size}},
	}
	return targets
}

// TestTargets wants the same bytes as the processor writes, and no others.
func TestTargets(t *testing.T) {
	b := newBench(t, devicetest.Options{}, Options{})
	for _, p := range allPictures(t) {
		want := targetsFor(p.samples.Header)
		var names []string
		var jobs []l3.Job
		for name, dst := range targetsFor(p.samples.Header) {
			names = append(names, name)
			jobs = append(jobs, l3.Job{Samples: p.samples, Dst: dst})
		}
		testenv.Must(t, b.Decode(t.Context(), jobs))
		for i, name := range names {
			if err := p.samples.Decode(want[name]); err != nil {
				t.Fatal(p.name, name, err)
			}
			if jobs[i].Err != nil || !bytes.Equal(jobs[i].Dst.Pix, want[name].Pix) {
				t.Errorf("%s, %s: %v, or other bytes", p.name, name, jobs[i].Err)
			}
		}
	}
}

// TestTooSmall wants the processor's error for a target that is too small, also
// beside others.
func TestTooSmall(t *testing.T) {
	b := newBench(t, devicetest.Options{}, Options{})
	all := allPictures(t)[:3]
	jobs := jobsOf(all)
	jobs[1].Dst.Pix = jobs[1].Dst.Pix[1:]
	testenv.Must(t, b.Decode(t.Context(), jobs))
	if !errors.Is(jobs[1].Err, transcode.ErrInternal) {
		t.Errorf("%v", jobs[1].Err)
	}
	jobs[1] = jobs[0]
	all[1] = all[0]
	wantPictures(t, all, jobs)
}

// TestPieces decodes more than fits the memory, and what does not fit at all.
func TestPieces(t *testing.T) {
	b := newBench(t, devicetest.Options{Slow: time.Millisecond}, Options{})
	var all []named
	px := pictures.Pixels(transcode.ModeRGB, 120, 90)
	s := opened(t, px, l3.Options{Mode: l3.Fast})
	for range 20 {
		all = append(all, named{"small", px, s, nil})
	}
	large := pictures.Pixels(transcode.ModeRGB, 400, 150)
	all = append(all, named{"large", large, opened(t, large, l3.Options{}), nil})
	jobs := jobsOf(all)
	testenv.Must(t, b.Decode(t.Context(), jobs))
	wantPictures(t, all, jobs)
	if got := b.Stats(); got.Pictures != 20 || got.Rejects != 1 {
		t.Errorf("%+v", got)
	}
	if half := b.o.Memory / 2; b.gpu.Peak() <= half {
		t.Errorf("took %d bytes of %d: nothing overlaps", b.gpu.Peak(), b.o.Memory)
	}
}

// TestCancel wants the end of a context to be the end of Decode, and the slots to be
// there for the next.
func TestCancel(t *testing.T) {
	all := allPictures(t)
	b := newBench(t, devicetest.Options{Slow: 2 * time.Millisecond}, Options{Memory: 2 * slots * slotUnit})
	for i := range 20 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*500*time.Microsecond)
		jobs := jobsOf(all)
		err := b.Decode(ctx, jobs)
		if err == nil {
			wantPictures(t, all, jobs)
		} else if !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		cancel()
	}
	jobs := jobsOf(all)
	testenv.Must(t, b.Decode(t.Context(), jobs))
	wantPictures(t, all, jobs)
	if b.Stats().Failures != 0 || len(b.log.lines()) != 0 {
		t.Errorf("%+v, log %q", b.Stats(), b.log.lines())
	}
}

// TestClose closes while others decode.
func TestClose(t *testing.T) {
	all := allPictures(t)
	b := newBench(t, devicetest.Options{}, Options{})
	var work sync.WaitGroup
	for range 4 {
		work.Go(func() {
			for {
				jobs := jobsOf(all)
				err := b.Decode(t.Context(), jobs)
				if errors.Is(err, ErrClosed) {
					return
				}
				if err != nil {
					t.Error(err)
					return
				}
				wantPictures(t, all, jobs)
			}
		})
	}
	time.Sleep(20 * time.Millisecond)
	for range 2 {
		work.Go(func() {
			if err := b.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	work.Wait()
}

// TestLittleMemory refuses a bound that allows nothing.
func TestLittleMemory(t *testing.T) {
	if _, err := Open(Options{Memory: 1000}); err == nil || !strings.Contains(err.Error(), "at least") {
		t.Errorf("%v", err)
	}
}

// TestProgram has the program itself executed, the PTX that drivers are given: all
// kinds of pictures to all kinds of targets, those that are wide or larger than a
// patch, and damaged ones.
func TestProgram(t *testing.T) {
	b := newBench(t, devicetest.Options{Machine: devicetest.NewVM(2)}, Options{Memory: 2 << 20})
	wantLikeCPU(t, b.Backend, 1)
	if s := b.Stats(); s.Failures != 0 || s.Pictures < 25 || s.Rejects == 0 {
		t.Errorf("%+v, log %q", s, b.log.lines())
	}
}

// wantLikeCPU decodes pictures to some targets each, whole and damaged, and wants what
// the processor makes of them.
func wantLikeCPU(t *testing.T, backend l3.Backend, targets int) {
	t.Helper()
	seed := testenv.Seed(t)
	rng := rand.New(rand.NewPCG(seed, 0))
	all := allPictures(t)
	wide := pictures.Pixels(transcode.ModeRGB, 300, 34)
	all = append(all, named{"scratch rows", wide, opened(t, wide, l3.Options{Patch: 512}), encoded(t, wide, l3.Options{Patch: 512})})
	var names []string
	var jobs []l3.Job
	var want []transcode.Target
	for i, p := range all {
		at := targetsFor(p.samples.Header)
		for k := range targets {
			name := slices.Sorted(maps.Keys(at))[(i+k)%len(at)]
			names = append(names, fmt.Sprintf("seed %d: %s, %s", seed, p.name, name))
			jobs = append(jobs, l3.Job{Samples: p.samples, Dst: at[name]})
			want = append(want, targetsFor(p.samples.Header)[name])
			if s, err := l3.Open(damage(rng, p.file), transcode.Limits{}); err == nil {
				names = append(names, fmt.Sprintf("seed %d: %s, damaged", seed, p.name))
				jobs = append(jobs, l3.Job{Samples: s, Dst: interleaved(s.Header)})
				want = append(want, interleaved(s.Header))
			}
		}
	}
	testenv.Must(t, backend.Decode(t.Context(), jobs))
	for i, j := range jobs {
		err := j.Samples.Decode(want[i])
		switch {
		case fmt.Sprint(err) != fmt.Sprint(j.Err):
			t.Errorf("%s: %v, want %v", names[i], j.Err, err)
		case err == nil && !bytes.Equal(j.Dst.Pix, want[i].Pix):
			t.Errorf("%s: other bytes", names[i])
		}
	}
}
