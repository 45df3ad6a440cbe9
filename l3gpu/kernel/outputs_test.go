package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/pipefs/pipefs/internal/pictures"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/l3gpu/internal/sim/ptxvm"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/l3"
	"github.com/pipefs/pipefs/transcode/png"
)

// TestNumbers wants the very bits that a processor computes.
func TestNumbers(t *testing.T) {
	testenv.Slow(t)
	rng := rand.New(rand.NewPCG(3, 1))
	for _, mode := range few(pictures.L3Modes, 3) {
		var items []item
		for i, size := range few([][2]int{{33, 9}, {65, 3}, {4, 4}}, 1) {
			for _, output := range []Output{Float32, Float16} {
				for _, o := range few(orders, 2) {
					it := item{samples: encoded(t, picture(rng, mode, size[0], size[1], 2+i), l3.Options{}), order: o, output: output}
					for c := range it.scale {
						it.scale[c], it.bias[c] = float32(rng.NormFloat64()/100), float32(rng.NormFloat64())
					}
					items = append(items, it)
				}
			}
		}
		check(t, items)
	}
}

type side struct {
	mode                 transcode.Mode
	width, height, patch int
}

// TestSides decodes patches of many sides, some so wide that they need scratch rows.
func TestSides(t *testing.T) {
	testenv.Slow(t)
	rng := rand.New(rand.NewPCG(4, 1))
	for _, c := range few([]side{
		{transcode.ModeL, 300, 1, 0}, {transcode.ModeL, 1, 300, 0}, {transcode.ModeL, 300, 70, 4096}, {transcode.ModeRGB, 257, 65, 300},
		{transcode.ModeRGB, 256, 97, 0}, {transcode.ModeRGBA16, 260, 66, 300}, {transcode.ModeL, 3000, 33, 4096}, {transcode.ModeRGB, 100, 100, 7},
		{transcode.ModeRGB, 254, 70, 0}, {transcode.ModeLA, 95, 97, 40}, {transcode.ModeRGB16, 79, 100, 0},
	}, 1) {
		var items []item
		for i := range 3 {
			for _, mode := range []l3.Mode{l3.Dense, l3.Fast} {
				items = append(items, item{samples: encoded(t, picture(rng, c.mode, c.width, c.height, 2+i), l3.Options{Mode: mode, Patch: c.patch}), order: orders[i]})
			}
		}
		check(t, items)
	}
	for _, patch := range few([]int{1, 2, 3, 8, 31, 64, 65, 100, 255}, 2) {
		var items []item
		for i, mode := range []transcode.Mode{transcode.ModeL, transcode.ModeRGB, transcode.ModeRGB} {
			size := min(3*patch+i, 140)
			items = append(items, item{samples: encoded(t, picture(rng, mode, size, min(size+3, 30), i+2), l3.Options{Mode: l3.V1, Patch: patch}), order: orders[i]})
		}
		check(t, items)
	}
}

// TestVectors decodes what other encoders wrote.
func TestVectors(t *testing.T) {
	var items []item
	name := regexp.MustCompile(`\.n\d+(\.ref)?\.l3$`)
	for i, path := range few(testenv.Shared(t, "l3/*.l3"), 2) {
		b, err := os.ReadFile(path)
		testenv.Must(t, err)
		ppm, err := os.ReadFile(name.ReplaceAllString(path, ".ppm"))
		testenv.Must(t, err)
		it := item{samples: opened(t, b), order: orders[i%3]}
		items = append(items, it)
		pix := make([]byte, 3*it.samples.Width*it.samples.Height)
		if err := it.samples.Decode(transcode.Interleaved(pix, it.samples.Width, 3, 1)); err != nil || !strings.HasSuffix(string(ppm), string(pix)) {
			t.Errorf("%s: the processor's decoder differs, %v", path, err)
		}
	}
	check(t, items)
}

// photograph is a part of a photograph.
func photograph(t testing.TB, path string, x, y, width, height int) *transcode.Pixels {
	t.Helper()
	b, err := os.ReadFile(path)
	testenv.Must(t, err)
	px, err := png.Decoder{}.Decode(t.Context(), b, transcode.Limits{})
	testenv.Must(t, err)
	out := &transcode.Pixels{Width: width, Height: height, Mode: transcode.ModeRGB}
	for j := range height {
		out.Pix = append(out.Pix, px.Pix[3*((y+j)*px.Width+x):][:3*width]...)
	}
	return out
}

// TestPhotographs decodes parts of photographs, and says what that would cost.
func TestPhotographs(t *testing.T) {
	testenv.Slow(t)
	if testenv.Race {
		t.Skip("skipped: it takes too long under the race detector")
	}
	paths := testenv.Shared(t, "kodak/*.png")
	type way struct {
		width  int
		order  order
		output Output
	}
	var ways []way
	for _, o := range orders[:2] {
		for _, output := range []Output{AsStored, Float32} {
			ways = append(ways, way{240, o, output})
		}
	}
	// Rows that begin at any byte take other stores.
	ways = append(ways, way{250, orders[0], AsStored})
	for _, mode := range []l3.Mode{l3.V1, l3.Fast, l3.Dense} {
		for _, w := range ways {
			it := item{order: w.order, output: w.output, scale: [4]float32{1. / 255, 1. / 255, 1. / 255}, bias: [4]float32{-.5, -.4, -.3}}
			n := 0
			var items []item
			for i, path := range paths[:2] {
				it.samples = encoded(t, photograph(t, path, 100*i, 60, w.width, 224), l3.Options{Mode: mode})
				items = append(items, it)
				n += it.samples.Width * it.samples.Height * 3
			}
			check(t, items)
			for build := range builds {
				_, stats := decode(t, build, items, 0)
				name := fmt.Sprintf("%d-%v-%s-%d", builds[build].capability, mode, w.order.name, w.width)
				if w.output != AsStored {
					name += "-float32"
				}
				report(t, name, stats, n, w.output == AsStored)
			}
		}
	}
}

// report says what n samples cost. PIPEFS_COUNTS names a directory for what scripts/sass
// needs; only the counts of a hot run go there.
func report(t *testing.T, name string, stats map[string]*ptxvm.Stats, n int, hot bool) {
	t.Helper()
	for entry, s := range stats {
		if dir := os.Getenv("PIPEFS_COUNTS"); dir != "" && hot {
			var b strings.Builder
			fmt.Fprintln(&b, entry, n)
			for _, l := range s.Lines {
				fmt.Fprintln(&b, l.Line, l.Warps)
			}
			testenv.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(b.String()), 0o644))
		}
		lanes := 32 * float64(s.Total.Warps) / float64(n)
		t.Logf("%s %s: %.1f lane-instructions a sample of which %.0f%% do something, %.2f bank conflicts, %.2f sectors, %.2f global and %.2f shared accesses a 32 samples",
			entry, name, lanes, 100*float64(s.Total.Lanes)/float64(32*s.Total.Warps), per(s.BankConflicts, n), per(s.GlobalSectors, n), per(s.GlobalAccesses, n), per(s.SharedAccesses, n))
	}
}

func per(v uint64, samples int) float64 { return 32 * float64(v) / float64(samples) }

// TestPlan has what a plan refuses.
func TestPlan(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 1))
	s := encoded(t, picture(rng, transcode.ModeRGB16, 10, 6, 3), l3.Options{})
	good := Target{Low: 1000, High: 1000 + 360, Base: 1000, Row: 60, Pixel: 6, Channel: 2}
	for i, c := range []struct {
		change func(p *Picture)
		ok     bool
	}{
		{func(*Picture) {}, true},
		{func(p *Picture) { p.Source = 8 }, false},
		{func(p *Picture) { p.Target.High-- }, false},
		{func(p *Picture) { p.Target.Low++ }, false},
		{func(p *Picture) { p.Target.Base-- }, false},
		{func(p *Picture) { p.Target.Pixel = 7 }, false},
		{func(p *Picture) { p.Target.Row = -60 }, false},
		{func(p *Picture) { p.Target.Row, p.Target.Base = -60, 1000+300 }, true},
		{func(p *Picture) { p.Target.Row = math.MaxInt64 - 1 }, false},
		{func(p *Picture) { p.Target.Row = math.MinInt64 }, false},
		{func(p *Picture) { p.Target.Output = 3 }, false},
		{func(p *Picture) { p.Target.Output = Float32 }, false},
	} {
		p := Picture{Samples: s, Source: 1 << 20, Target: good}
		c.change(&p)
		if err := New([]Picture{p}).Errors[0]; (err == nil) != c.ok {
			t.Errorf("case %d: %v", i, err)
		}
	}
	plan := New([]Picture{{Samples: s, Source: 1 << 20, Target: good}})
	if plan.Err(0, math.MaxUint32) != nil {
		t.Error("all ones are an error")
	}
	for _, status := range []uint32{0, 1, 4, 15, 16 + 4, 0xfffffff0} {
		if err := plan.Err(0, status); err == nil {
			t.Errorf("status %#x is no error", status)
		} else {
			t.Log(err)
		}
	}
	pictures, patches := plan.Records(0)
	if len(pictures) != PictureLen || len(patches) != PatchLen || plan.Launches[0] != (Launch{"l3v2_3w", 0, 1, 1}) {
		t.Error(len(pictures), len(patches), plan.Launches)
	}
}
