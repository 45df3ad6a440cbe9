package jpeg

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	stdjpeg "image/jpeg"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/pictures"
	"github.com/pipefs/pipefs/internal/testenv"
)

// threadCPU is the time that this thread has used so far, in seconds. It does not
// mind what else the machine is doing as much as a clock does.
func threadCPU(b *testing.B) float64 {
	b.Helper()
	var t unix.Timespec
	testenv.Must(b, unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t))
	return float64(t.Nano()) / 1e9
}

// childCPU is the time that the processes which this one has waited for have used,
// in seconds.
func childCPU(b *testing.B) float64 {
	b.Helper()
	var u unix.Rusage
	testenv.Must(b, unix.Getrusage(unix.RUSAGE_CHILDREN, &u))
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

// largePPM is a generated photograph of 1920×1080 pixels.
func largePPM() []byte {
	hd := pictures.Photo(1920, 1080, 1)
	ppm := fmt.Appendf(nil, "P6\n1920 1080\n255\n")
	for i := 0; i < len(hd.Pix); i += 4 {
		ppm = append(ppm, hd.Pix[i:i+3]...)
	}
	return ppm
}

// way is one of several ways to do the same to a file.
type way struct {
	name string
	run  func(i int)
	// apart is for processes: they leave cold caches to what runs next.
	apart bool
}

// alternate does the work of each way to each file, in turn and in a random order:
// a way leaves other caches to the next one. It returns the medians over all
// passes, for each way: the seconds of CPU time a file, and the speed over that of
// the first way. Garbage is collected in between, so that no way pays for another's.
func alternate(b *testing.B, files int, ways []way) (seconds, speed []float64) {
	b.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	passes, ratios := make([][]float64, len(ways)), make([][]float64, len(ways))
	r := rand.New(rand.NewPCG(1, 1))
	for b.Loop() {
		took := make([]float64, len(ways))
		for _, apart := range []bool{false, true} {
			for i := range files {
				runtime.GC()
				for _, w := range r.Perm(len(ways)) {
					if ways[w].apart == apart {
						before := threadCPU(b) + childCPU(b)
						ways[w].run(i)
						took[w] += threadCPU(b) + childCPU(b) - before
					}
				}
			}
		}
		for w := range ways {
			passes[w] = append(passes[w], took[w]/float64(files))
			ratios[w] = append(ratios[w], took[0]/took[w])
		}
	}
	for w := range ways {
		seconds, speed = append(seconds, median(passes[w])), append(speed, median(ratios[w]))
	}
	return seconds, speed
}

// pixelWays are libjpeg-turbo and this package.
func pixelWays(b *testing.B, files [][]byte, scale int) []way {
	return []way{
		{name: "libturbojpeg", run: func(i int) {
			h, err := ParseHeader(files[i], Limits{})
			testenv.Must(b, err)
			width, height := ScaledSize(h.Width, h.Height, scale)
			testenv.Must(b, decompress(b, files[i], &Image{width, height, 3, make([]byte, 3*width*height)}))
		}},
		{name: "own", run: func(i int) {
			if _, err := DecodePixels(files[i], scale, Limits{}); err != nil {
				b.Fatal(err)
			}
		}},
	}
}

// BenchmarkTranscode transcodes photographs, and a picture of 1920×1080 pixels, in
// turn with libjpeg-turbo's tjTransform, with this package, and with jpegtran as a
// process of its own, the start of which counts; and makes the files again. It
// reports CPU time a file, and speed over that of tjTransform.
func BenchmarkTranscode(b *testing.B) {
	var photos [][]byte
	for _, file := range photographs(b) {
		photos = append(photos, read(b, file))
	}
	large, _ := tool(b, largePPM(), "cjpeg", "-quality", "85", "-sample", "2x2")
	for name, files := range map[string][][]byte{"bsds": photos, "1080p": {large}} {
		b.Run(name, func(b *testing.B) {
			var scans []Scans
			var paths []string
			dir := b.TempDir()
			for i, src := range files {
				s, err := Transcode(src, Options{Reconstruct: true})
				testenv.Must(b, err)
				scans = append(scans, s)
				paths = append(paths, filepath.Join(dir, fmt.Sprint(i)))
				testenv.Must(b, os.WriteFile(paths[i], src, 0o644))
			}
			must := func(err error) {
				testenv.Must(b, err)
			}
			ways := []way{
				{name: "tjTransform", run: func(i int) { transform(b, files[i]) }},
				{name: "progressive", run: func(i int) { _, err := Transcode(files[i], Options{}); must(err) }},
				{name: "reconstruction", run: func(i int) { _, err := Transcode(files[i], Options{Reconstruct: true}); must(err) }},
				{name: "restore", run: func(i int) { _, err := Restore(scans[i].Data, scans[i].Reconstruction, Limits{}); must(err) }},
				{name: "baseline", run: func(i int) { _, err := Sequential(scans[i].Data, Limits{}); must(err) }},
				{name: "jpegtran", apart: true, run: func(i int) {
					must(exec.Command("jpegtran", "-copy", "all", "-progressive", "-outfile", os.DevNull, paths[i]).Run())
				}},
			}
			seconds, speed := alternate(b, len(files), ways)
			for w := range ways {
				b.ReportMetric(1e3*seconds[w], "ms-"+ways[w].name)
				if w > 0 {
					b.ReportMetric(speed[w], "x-"+ways[w].name)
				}
			}
		})
	}
}

// BenchmarkFidelities measures what Tables 1 and 2 of the PCR paper do, over
// photographs: the mean size of each fidelity, and how many of it a core decodes in
// a second, with this package and with libjpeg-turbo. The photographs themselves
// are decoded in turn with them, by libjpeg-turbo: x-original-… is the speed over
// that. They are the paper's baseline. Sequential files, and those that are cut at
// fewer fidelities, are ways to make decoding cheaper.
func BenchmarkFidelities(b *testing.B) {
	// at cuts a progressive file.
	at := func(cuts Cuts, level int) func(src []byte) ([]byte, error) {
		return func(src []byte) ([]byte, error) {
			s, err := Transcode(src, Options{Cuts: cuts})
			if err != nil {
				return nil, err
			}
			return append(bytes.Clone(s.Data[:s.Ends[s.Levels[level-1]-1]]), EOI[:]...), nil
		}
	}
	// sequential makes a baseline file of what another function makes.
	sequential := func(cut func(src []byte) ([]byte, error)) func(src []byte) ([]byte, error) {
		return func(src []byte) ([]byte, error) {
			scan, err := cut(src)
			if err != nil {
				return nil, err
			}
			return Sequential(scan, Limits{})
		}
	}
	var photos [][]byte
	for _, file := range photographs(b) {
		photos = append(photos, read(b, file))
	}
	for _, row := range []struct {
		name string
		from func(src []byte) ([]byte, error)
	}{
		{"scan1", at(0, 1)},
		{"scan2", at(0, 2)},
		{"scan5", at(0, 5)},
		{"scan10", at(0, 10)},
		{"original", func(src []byte) ([]byte, error) { return src, nil }},
		{"baseline", sequential(at(0, 10))},
		{"scan5-baseline", sequential(at(0, 5))},
		{"cuts=1,10/scan10", at(CutsAt(1), 10)},
		{"cuts=5,10/scan10", at(CutsAt(5), 10)},
	} {
		b.Run(row.name, func(b *testing.B) {
			var files [][]byte
			whole, size := 0, 0
			for _, src := range photos {
				file, err := row.from(src)
				testenv.Must(b, err)
				files = append(files, file)
				whole, size = whole+len(src), size+len(file)
			}
			ways := append(pixelWays(b, photos, 1)[:1], pixelWays(b, files, 1)...)
			seconds, speed := alternate(b, len(files), ways)
			b.ReportMetric(float64(size)/float64(len(files)), "bytes/image")
			b.ReportMetric(float64(whole)/float64(size), "x-smaller")
			for w := 1; w < len(ways); w++ {
				b.ReportMetric(1/seconds[w], "images/s-"+ways[w].name)
				b.ReportMetric(speed[w], "x-original-"+ways[w].name)
			}
		})
	}
}

func median(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}

// BenchmarkDecodePixels decodes photographs, and a picture of 1920×1080 pixels, in
// turn with libjpeg-turbo, with this package, and with the standard library. It
// reports pixels for each second of CPU time, and speed over that of libjpeg-turbo.
// A preview is the first scan of a progressive file, which is smoothed.
func BenchmarkDecodePixels(b *testing.B) {
	var photos, progressive [][]byte
	for _, file := range photographs(b)[:40] {
		src := read(b, file)
		s, err := Transcode(src, Options{})
		testenv.Must(b, err)
		photos, progressive = append(photos, src), append(progressive, s.Data)
	}
	ppm := largePPM()
	large, _ := tool(b, ppm, "cjpeg", "-quality", "85", "-sample", "2x2")
	largeProgressive, _ := tool(b, ppm, "cjpeg", "-quality", "85", "-sample", "2x2", "-progressive")

	for _, set := range []struct {
		name  string
		files [][]byte
		scale int
	}{
		{"bsds/baseline", photos, 1},
		{"bsds/progressive", progressive, 1},
		{"1080p/baseline", [][]byte{large}, 1},
		{"1080p/progressive", [][]byte{largeProgressive}, 1},
		{"1080p/preview", cuts(b, largeProgressive)[:1], 1},
		{"1080p/half", [][]byte{large}, 2},
		{"1080p/eighth", [][]byte{large}, 8},
	} {
		b.Run(set.name, func(b *testing.B) {
			pixels := 0
			for _, src := range set.files {
				h, err := ParseHeader(src, Limits{})
				testenv.Must(b, err)
				width, height := ScaledSize(h.Width, h.Height, set.scale)
				pixels += width * height
			}
			ways := pixelWays(b, set.files, set.scale)
			if set.scale == 1 {
				ways = append(ways, way{name: "std", run: func(i int) {
					m, err := stdjpeg.Decode(bytes.NewReader(set.files[i]))
					testenv.Must(b, err)
					standardRGB(m.(*image.YCbCr))
				}})
			}
			seconds, speed := alternate(b, len(set.files), ways)
			for w := range ways {
				b.ReportMetric(float64(pixels)/float64(len(set.files))/1e6/seconds[w], "Mpixel/s-"+ways[w].name)
				if w > 0 {
					b.ReportMetric(speed[w], "x-"+ways[w].name)
				}
			}
		})
	}
}

// standardRGB converts with the standard library's arithmetic.
func standardRGB(m *image.YCbCr) []byte {
	size := m.Rect.Size()
	pix := make([]byte, 0, 3*size.X*size.Y)
	for y := range size.Y {
		for x := range size.X {
			c := m.COffset(x, y)
			r, g, b := color.YCbCrToRGB(m.Y[m.YOffset(x, y)], m.Cb[c], m.Cr[c])
			pix = append(pix, r, g, b)
		}
	}
	return pix
}
