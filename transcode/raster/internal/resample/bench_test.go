package resample

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/testenv"
)

// rounds is a program that cuts out and scales all boxes whenever it is told to, and prints
// the processor time that it took.
const rounds = `
import json, sys, time
from PIL import Image

filters = [Image.BILINEAR, Image.BICUBIC]
pictures, crops = {}, []
for path, mode, size, (x, y, width, height), to, f, mirror in json.load(open(sys.argv[1])):
    if path not in pictures:
        pictures[path] = Image.frombytes(mode, size, open(path, "rb").read())
    crops.append((pictures[path], (x, y, x + width, y + height), to, filters[f], mirror))
print(Image.__version__, flush=True)
for _ in sys.stdin:
    start = time.process_time()
    for im, box, to, f, mirror in crops:
        im = im.crop(box).resize(to, f)
        if mirror:
            im.transpose(Image.FLIP_LEFT_RIGHT)
    print(time.process_time() - start, flush=True)
`

// startPillow starts that program. What it returns asks it for a round, and returns the
// seconds that it took.
func startPillow(b *testing.B, crops []crop) (round func() float64) {
	b.Helper()
	program := filepath.Join(b.TempDir(), "rounds.py")
	testenv.Must(b, os.WriteFile(program, []byte(rounds), 0o644))
	cmd := exec.Command("/usr/bin/python3", program, save(b, crops))
	ask, err := cmd.StdinPipe()
	testenv.Must(b, err)
	answers, err := cmd.StdoutPipe()
	testenv.Must(b, err)
	cmd.Stderr = os.Stderr
	testenv.Must(b, cmd.Start())
	b.Cleanup(func() {
		ask.Close()
		testenv.Must(b, cmd.Wait())
	})
	lines := bufio.NewReader(answers)
	version, err := lines.ReadString('\n')
	testenv.Must(b, err)
	b.Logf("Pillow %s", version)
	return func() (seconds float64) {
		_, err := io.WriteString(ask, "\n")
		testenv.Must(b, err)
		_, err = fmt.Fscanln(lines, &seconds)
		testenv.Must(b, err)
		return seconds
	}
}

// BenchmarkPhotographs cuts boxes out of photographs, scales them to 224×224 and mirrors half
// of them, or scales whole ones to a shorter side of 256: in turn with Pillow and with each
// form, each time from pixels that have left the caches meanwhile. It reports ms of CPU time a
// picture, medians, and speed over Pillow's.
func BenchmarkPhotographs(b *testing.B) {
	for _, work := range []struct {
		name  string
		crops func() []crop
	}{
		{"crop224-bilinear", func() []crop { return photographs(b, 224, Bilinear) }},
		{"crop224-bicubic", func() []crop { return photographs(b, 224, Bicubic) }},
		{"resize256-bilinear", func() []crop { return whole(photographs(b, 256, Bilinear)) }},
	} {
		b.Run(work.name, func(b *testing.B) {
			crops := work.crops()
			names := []string{"Pillow"}
			runs := []func() float64{startPillow(b, crops)}
			var dst []byte
			for _, form := range forms {
				names = append(names, form.Name)
				runs = append(runs, func() float64 {
					form.Use()
					start := threadCPU(b)
					for _, c := range crops {
						c.scale(b, resized(&dst, c.size()))
					}
					return threadCPU(b) - start
				})
			}
			alternate(b, len(crops), names, runs)
		})
	}
}

// whole makes whole pictures of boxes, whose shorter side gets the length that the result had.
func whole(crops []crop) []crop {
	for i := range crops {
		c := &crops[i]
		side, shorter := c.out[0], min(c.px.Width, c.px.Height)
		*c = crop{
			px: c.px, width: c.px.Width, height: c.px.Height, filter: c.filter,
			out: [2]int{side * c.px.Width / shorter, side * c.px.Height / shorter},
		}
	}
	return crops
}

// alternate does what there is to compare in turn, and reports medians.
func alternate(b *testing.B, crops int, names []string, runs []func() float64) {
	b.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	ms, speed := make([][]float64, len(runs)), make([][]float64, len(runs))
	for b.Loop() {
		var first float64
		for i, run := range runs {
			took := run()
			if i == 0 {
				first = took
			}
			ms[i] = append(ms[i], 1e3*took/float64(crops))
			speed[i] = append(speed[i], first/took)
		}
	}
	for i, name := range names {
		b.ReportMetric(median(ms[i]), "ms-"+name)
		if i > 0 {
			b.ReportMetric(median(speed[i]), "x-"+name)
		}
	}
}

func median(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}

// threadCPU is the processor time of the calling thread, in seconds.
func threadCPU(b *testing.B) float64 {
	b.Helper()
	var t unix.Timespec
	testenv.Must(b, unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t))
	return float64(t.Nano()) / 1e9
}
