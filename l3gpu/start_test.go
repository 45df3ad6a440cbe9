package l3gpu

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pipefs/pipefs/internal/pictures"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/internal/testmount"
	"github.com/pipefs/pipefs/l3gpu/internal/device"
	"github.com/pipefs/pipefs/l3gpu/internal/sim/devicetest"
	"github.com/pipefs/pipefs/l3gpu/internal/sim/fakecuda"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/l3"
)

// TestStart wants decoding to work before the GPU is decided on, afterwards, and when
// it was closed; and one line about the decision.
func TestStart(t *testing.T) {
	all := allPictures(t)
	absent := &device.Error{Call: "dlopen", Kind: device.ErrNoDriver}
	for name, c := range map[string]struct {
		force bool
		open  error
		slow  time.Duration
		says  string
		fails bool
		used  bool
	}{
		"forced":             {true, nil, 0, "level=INFO msg=\"L3 files are decoded on the GPU\" gpu=\"Test GPU", false, true},
		"forced and not":     {true, absent, 0, "", true, false},
		"not there":          {false, absent, 0, "level=INFO msg=\"L3 files are decoded on the processor\"", false, false},
		"in use":             {false, errors.New("prohibited"), 0, "level=WARN msg=\"L3 files are decoded on the processor\" cause=\"GPU 3: prohibited", false, false},
		"slower than no GPU": {false, nil, 200 * time.Millisecond, "level=INFO msg=\"L3 files are decoded on the processor\" compared=\"Test GPU", false, false},
		"faster":             {false, nil, 0, "msg=\"L3 files are decoded on the GPU\" compared=\"Test GPU: 7.0 GB/s of samples, the processor 5.0 GB/s: the GPU is used", false, true},
	} {
		t.Run(name, func(t *testing.T) {
			gpu := devicetest.New(devicetest.Options{Machine: fakecuda.NewMachine(), Slow: c.slow})
			log := new(logged)
			o := StartOptions{
				Options: Options{
					Device: 3, Memory: 8 << 20, Log: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})),
					device: func(int) (device.Device, error) {
						if c.open != nil {
							return nil, c.open
						}
						return gpu, nil
					},
				},
				Force: c.force, Compare: CompareOptions{Pictures: 2}, After: 100_000,
			}
			if name == "faster" {
				o.compare = func(context.Context, l3.Backend, l3.Backend, CompareOptions) (Comparison, error) {
					return Comparison{Name: "Test GPU", GPU: 7e9, CPU: 5e9}, nil
				}
			}
			s, err := Start(o)
			if c.fails {
				if !errors.Is(err, c.open) {
					t.Errorf("%v", err)
				}
				return
			}
			testenv.Must(t, err)
			decode := func() {
				t.Helper()
				var work sync.WaitGroup
				for _, p := range all {
					work.Go(func() {
						dst := interleaved(p.samples.Header)
						if err := s.DecodeOne(t.Context(), p.samples, dst); err != nil || !bytes.Equal(dst.Pix, p.px.Pix) {
							t.Errorf("%s: %v, or another picture", p.name, err)
						}
						jobs := jobsOf([]named{p})
						if err := s.Decode(t.Context(), jobs); err != nil {
							t.Error(err)
						}
						wantPictures(t, []named{p}, jobs)
					})
				}
				jobs := jobsOf(all)
				if err := s.Decode(t.Context(), jobs); err != nil {
					t.Error(err)
				}
				wantPictures(t, all, jobs)
				work.Wait()
			}
			if lines := log.lines(); len(lines) > 0 != c.force {
				t.Errorf("before anything was decoded: %q", lines)
			}
			decode()
			s.begun.Wait()
			decode()
			stats, used := s.Stats()
			if used != c.used || used && stats.Pictures == 0 {
				t.Errorf("used %v: %+v", used, stats)
			}
			for range 2 {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			}
			decode()
			if lines := log.lines(); len(lines) != 1 || !strings.Contains(lines[0], c.says) {
				t.Errorf("%q", lines)
			}
			if c.open == nil {
				if err := gpu.Check(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

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

func TestMain(m *testing.M) { os.Exit(testmount.Main(m)) }

// TestMount has the daemon of a mount decode L3 files on a GPU, for which package fakecuda
// has a library and a machine.
func TestMount(t *testing.T) {
	dataset := t.TempDir()
	want := map[string][]byte{}
	for i, o := range allWays {
		px := pictures.Pixels(transcode.ModeRGB, 70+i, 41)
		name := strconv.Itoa(i)
		testenv.Must(t, os.WriteFile(filepath.Join(dataset, name+".l3"), encoded(t, px, o), 0o644))
		want[name] = px.Pix
	}
	library, launches := fakecuda.Library(t)
	env := append(testmount.Home(t), library...)
	mnt := testmount.Mount(t, env, dataset, "--gpu", "0", "--no-background")
	for name, pix := range want {
		got, err := os.ReadFile(filepath.Join(mnt, "ppm", name+".ppm"))
		if err != nil || !bytes.HasSuffix(got, pix) {
			t.Errorf("%s: %d bytes, %v, or other pixels", name, len(got), err)
		}
	}
	if launches.Load() == 0 {
		t.Error("nothing was decoded on the GPU")
	}
	if out := testmount.Command(t, env, "stats", mnt); !strings.Contains(out, "batches that failed") {
		t.Errorf("stats:\n%s", out)
	}
}
