package jpeg

import (
	"fmt"
	"runtime"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/pictures"
)

// threadCPU is the time that this thread has used so far, in seconds. It does not
// mind what else the machine is doing as much as a clock does.
func threadCPU(b *testing.B) float64 {
	b.Helper()
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		b.Fatal(err)
	}
	return float64(t.Nano()) / 1e9
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

// BenchmarkTranscode transcodes photographs, and a picture of 1920×1080 pixels, in
// turn with libjpeg-turbo's tjTransform and with this package, and makes the files
// again. It reports the medians of the CPU time a file, and of the ratios: speed
// over that of tjTransform.
func BenchmarkTranscode(b *testing.B) {
	var photos [][]byte
	for _, file := range photographs(b) {
		photos = append(photos, read(b, file))
	}
	large, _ := tool(b, largePPM(), "cjpeg", "-quality", "85", "-sample", "2x2")
	for name, files := range map[string][][]byte{"bsds": photos, "1080p": {large}} {
		b.Run(name, func(b *testing.B) {
			var scans []Scans
			for _, src := range files {
				s, err := Transcode(src, Options{Undo: true})
				if err != nil {
					b.Fatal(err)
				}
				scans = append(scans, s)
			}
			must := func(err error) {
				if err != nil {
					b.Fatal(err)
				}
			}
			ways := []struct {
				name string
				run  func(i int)
			}{
				{"tjTransform", func(i int) { transform(b, files[i]) }},
				{"progressive", func(i int) { _, err := Progressive(files[i], Limits{}); must(err) }},
				{"undo", func(i int) { _, err := Transcode(files[i], Options{Undo: true}); must(err) }},
				{"restore", func(i int) { _, err := Restore(scans[i].Data, scans[i].Undo, Limits{}); must(err) }},
				{"baseline", func(i int) { _, err := Sequential(scans[i].Data, Limits{}); must(err) }},
			}
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			took, ratio := make([][]float64, len(ways)), make([][]float64, len(ways))
			for b.Loop() {
				for i := range files {
					for w := range ways {
						before := threadCPU(b)
						ways[w].run(i)
						took[w] = append(took[w], threadCPU(b)-before)
						ratio[w] = append(ratio[w], took[0][len(took[0])-1]/took[w][len(took[w])-1])
					}
				}
			}
			for w := range ways {
				b.ReportMetric(1e3*median(took[w]), "ms-"+ways[w].name)
				if w > 0 {
					b.ReportMetric(median(ratio[w]), "x-"+ways[w].name)
				}
			}
		})
	}
}

func median(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}

func BenchmarkParseHeader(b *testing.B) {
	src := read(b, photographs(b)[0])
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ParseHeader(src, Limits{}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkRestore makes the photographs again from their scans.
func BenchmarkRestore(b *testing.B) {
	var scans []Scans
	total := 0
	for _, file := range photographs(b) {
		src := read(b, file)
		total += len(src)
		s, err := Transcode(src, Options{Undo: true})
		if err != nil {
			b.Fatal(err)
		}
		scans = append(scans, s)
	}
	b.SetBytes(int64(total / len(scans)))
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		s := &scans[i%len(scans)]
		if _, err := Restore(s.Data, s.Undo, Limits{}); err != nil {
			b.Fatal(err)
		}
		i++
	}
}
