package codecs_test

import (
	"bytes"
	"fmt"
	"image"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/jpeg"
	"github.com/pipefs/pipefs/transcode/l3"
	"github.com/pipefs/pipefs/transcode/png"
	"github.com/pipefs/pipefs/transcode/raster"
)

// BenchmarkDecodeRegion decodes random crops of photographs, as `rrc` draws them: one of each
// file, and more where there are fewer than 400. It takes turns with decoding all, in a random
// order, and reports for both the CPU time of a file, the ratio and its range over the passes;
// and which part of the pixels, and of the rows down to the last one, the crops have.
func BenchmarkDecodeRegion(b *testing.B) {
	scans := func(src []byte) []byte {
		s, err := jpeg.Transcode(src, jpeg.Options{})
		testenv.Must(b, err)
		return s.Data
	}
	lossless := func(src []byte) []byte {
		px, err := png.Decoder{}.Decode(b.Context(), src, transcode.Limits{})
		testenv.Must(b, err)
		file, err := l3.Encode(px, l3.Options{})
		testenv.Must(b, err)
		return file
	}
	for _, set := range []struct {
		name, files string
		decoder     transcode.RegionDecoder
		make        func(src []byte) []byte
	}{
		{"imagenet", "imagenet/*.JPEG", jpeg.Decoder{}, bytes.Clone},
		{"imagenet/progressive", "imagenet/*.JPEG", jpeg.Decoder{}, scans},
		{"bsds", "bsds/*.jpg", jpeg.Decoder{}, bytes.Clone},
		{"kodak/png", "kodak/*.png", png.Decoder{}, bytes.Clone},
		{"kodak/l3", "kodak/*.png", l3.Decoder{}, lossless},
	} {
		b.Run(set.name, func(b *testing.B) {
			var files [][]byte
			var infos []transcode.Info
			d := set.decoder.(transcode.Decoder)
			for _, path := range testenv.Shared(b, set.files) {
				src, err := os.ReadFile(path)
				testenv.Must(b, err)
				src = set.make(src)
				info, err := d.Probe(bytes.NewReader(src), int64(len(src)), transcode.Limits{})
				testenv.Must(b, err)
				files, infos = append(files, src), append(infos, info)
			}
			var crops []image.Rectangle
			var area, rows float64
			for i := range max(400, len(files)) {
				info := infos[i%len(infos)]
				draw := transcode.Draw{Seed: 1, Path: fmt.Sprint(filepath.Base(set.files), i)}
				c := raster.RandomResizedCrop().Draw(transcode.Shape{Info: info}, transcode.Step{Arg: 224}, draw.Random("rrc"))
				crops = append(crops, image.Rect(c.X, c.Y, c.X+c.Width, c.Y+c.Height))
				area += float64(c.Width*c.Height) / float64(info.Width*info.Height)
				rows += float64(c.Y+c.Height) / float64(info.Height)
			}
			seconds := inTurn(b, len(crops), func(i int) {
				_, err := d.Decode(b.Context(), files[i%len(files)], transcode.Limits{})
				testenv.Must(b, err)
			}, func(i int) {
				n := i % len(files)
				_, err := set.decoder.DecodeRegion(b.Context(), files[n], transcode.Limits{}, infos[n], crops[i])
				testenv.Must(b, err)
			})
			var ratios []float64
			for _, s := range seconds {
				ratios = append(ratios, s[1]/s[0])
			}
			middle := func(way int) float64 {
				slices.SortFunc(seconds, func(a, b [2]float64) int { return int(1e9 * (a[way] - b[way])) })
				return seconds[len(seconds)/2][way]
			}
			slices.Sort(ratios)
			b.ReportMetric(1e3*middle(0)/float64(len(crops)), "ms-whole")
			b.ReportMetric(1e3*middle(1)/float64(len(crops)), "ms-region")
			b.ReportMetric(ratios[len(ratios)/2], "x-region")
			b.ReportMetric(ratios[0], "x-least")
			b.ReportMetric(ratios[len(ratios)-1], "x-most")
			b.ReportMetric(area/float64(len(crops)), "of-pixels")
			b.ReportMetric(rows/float64(len(crops)), "of-rows")
		})
	}
}

// inTurn does the same in two ways, n times in each pass, and returns the seconds of CPU time
// that each pass took in each way. Garbage is collected in between.
func inTurn(b *testing.B, n int, ways ...func(i int)) (passes [][2]float64) {
	b.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	used := func() float64 {
		var t unix.Timespec
		testenv.Must(b, unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t))
		return float64(t.Nano()) / 1e9
	}
	rng := rand.New(rand.NewPCG(1, 1))
	for b.Loop() {
		var took [2]float64
		for i := range n {
			runtime.GC()
			for _, w := range rng.Perm(len(ways)) {
				before := used()
				ways[w](i)
				took[w] += used() - before
			}
		}
		passes = append(passes, took)
	}
	return passes
}
