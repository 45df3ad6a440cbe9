package jpeg

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
)

// ppm draws a picture with smooth parts, edges and noise, as a PPM or PGM file.
// The same arguments always give the same picture.
func ppm(w, h int, grey bool) []byte {
	rng := rand.New(rand.NewPCG(uint64(w), uint64(h)))
	var b bytes.Buffer
	kind, n := 6, 3
	if grey {
		kind, n = 5, 1
	}
	fmt.Fprintf(&b, "P%d\n%d %d\n255\n", kind, w, h)
	for y := range h {
		for x := range w {
			for c := range n {
				fx, fy := float64(x), float64(y)
				v := 128 + 90*math.Sin(fx/17+float64(c))*math.Cos(fy/11)
				if (x/13+y/19)%3 == 0 {
					v += 40 * float64(c-1)
				}
				if x > w/2 && y < h/2 {
					v += 30 * rng.NormFloat64()
				}
				b.WriteByte(byte(max(0, min(255, v))))
			}
		}
	}
	return b.Bytes()
}

// scripts holds scan scripts for cjpeg -scans. Their names say what for.
var scripts = map[string]string{
	// Sequential, one scan a component.
	"separate": "0;1;2;",
	"mixed":    "0;1 2;",
	// Progressive with no successive approximation at all.
	"spectral": "0 1 2: 0-0, 0, 0; 0: 1-63, 0, 0; 1: 1-63, 0, 0; 2: 1-63, 0, 0;",
	// Deep successive approximation, DC not interleaved, many narrow bands.
	"deep": "0: 0-0, 0, 3; 1: 0-0, 0, 3; 2: 0-0, 0, 3; 0 1 2: 0-0, 3, 2; 0: 0-0, 2, 1; 1 2: 0-0, 2, 1; 0 1 2: 0-0, 1, 0;" +
		"0: 1-1, 0, 4; 0: 2-9, 0, 4; 0: 10-63, 0, 4; 0: 1-63, 4, 3; 0: 1-20, 3, 2; 0: 21-63, 3, 2; 0: 1-63, 2, 1; 0: 1-63, 1, 0;" +
		"2: 1-63, 0, 3; 2: 1-63, 3, 2; 2: 1-63, 2, 1; 2: 1-63, 1, 0; 1: 1-63, 0, 0;",
	// The lowest bits never come.
	"unfinished": "0 1 2: 0-0, 0, 2; 0: 1-30, 0, 2; 1: 1-63, 0, 1;",
}

func scriptFile(t testing.TB, name string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "script")
	testenv.Must(t, os.WriteFile(file, []byte(scripts[name]), 0o600))
	return file
}

// synthetic makes a JPEG of a picture drawn by ppm, with cjpeg and the given
// options. "-scans NAME" takes one of the scripts above.
func synthetic(t testing.TB, w, h int, options string) []byte {
	t.Helper()
	args := strings.Fields(options)
	for i, a := range args {
		if a == "-scans" {
			args[i+1] = scriptFile(t, args[i+1])
		}
	}
	out, _ := tool(t, ppm(w, h, strings.Contains(options, "-grayscale")), "cjpeg", args...)
	return out
}

var samplings = []string{
	"-sample 1x1", "-sample 2x2", "-sample 2x1", "-sample 1x2", "-sample 4x1", "-sample 1x4", "-sample 3x1",
	"-sample 4x2", "-sample 2x2,2x1,1x2", "-sample 1x1,2x1,1x2", "-sample 1x1,1x1,2x2", "-grayscale",
	"-grayscale -sample 2x2", "-grayscale -sample 1x3", "-rgb", "-rgb -sample 2x2,1x1,2x2",
}

var sizes = [][2]int{{1, 1}, {7, 9}, {8, 8}, {16, 16}, {17, 33}, {64, 8}, {100, 75}}

// TestMatrix compares with jpegtran over samplings, sizes and codings, and wants the files
// back.
func TestMatrix(t *testing.T) {
	codings := []string{"", "-optimize", "-restart 1B", "-restart 2", "-restart 7B", "-progressive", "-progressive -restart 1",
		"-quality 1", "-quality 95", "-quality 100"}
	n := 0
	for _, sampling := range samplings {
		for i, size := range sizes {
			// All codings for each sampling, spread over the sizes.
			for j, coding := range codings {
				if (i+j)%len(sizes) > 2 {
					continue
				}
				options := strings.TrimSpace(sampling + " " + coding)
				src := synthetic(t, size[0], size[1], options)
				if t.Failed() {
					return
				}
				n++
				t.Run(fmt.Sprintf("%dx%d%s", size[0], size[1], strings.ReplaceAll(" "+options, " -", "/")), func(t *testing.T) {
					checkOracle(t, src)
					checkSequential(t, src)
					checkReconstruction(t, src, 0)
				})
			}
		}
	}
	t.Logf("%d pictures compared", n)
}

// TestScripts does so for input with unusual scans.
func TestScripts(t *testing.T) {
	for name := range scripts {
		for _, sampling := range []string{"-sample 1x1", "-sample 2x2", "-sample 2x1", "-sample 1x2", "-rgb"} {
			for _, size := range [][2]int{{1, 1}, {17, 33}, {100, 75}} {
				options := sampling + " -scans " + name
				t.Run(fmt.Sprintf("%s/%s/%dx%d", name, strings.TrimPrefix(sampling, "-"), size[0], size[1]), func(t *testing.T) {
					src := synthetic(t, size[0], size[1], options)
					checkOracle(t, src)
					checkSequential(t, src)
					checkReconstruction(t, src, 0)
				})
			}
		}
	}
}

// TestQualities compares with libjpeg-turbo for every quality: at the low end the
// quantisation tables have 16 bits.
func TestQualities(t *testing.T) {
	for q := 1; q <= 100; q++ {
		src := synthetic(t, 65, 47, fmt.Sprintf("-quality %d", q))
		checkOracle(t, src)
		checkPixels(t, src)
	}
}

// TestLarge compares with jpegtran for pictures on which runs of ends of band
// reach their limit, and correction bits fill the buffer of libjpeg.
func TestLarge(t *testing.T) {
	flat := []byte("P5\n3000 2000\n255\n" + strings.Repeat("\x77", 3000*2000))
	src, _ := tool(t, flat, "cjpeg", "-quality", "50")
	checkOracle(t, src)

	// A pattern that is the same in all blocks: coefficients that need many
	// corrections, and none that becomes nonzero in the last scan.
	rng := rand.New(rand.NewPCG(1, 2))
	var tile [64]byte
	for i := range tile {
		tile[i] = byte(rng.UintN(256))
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "P5\n%d %d\n255\n", 800, 600)
	for y := range 600 {
		for x := range 800 {
			b.WriteByte(tile[y%8*8+x%8])
		}
	}
	for _, quality := range []string{"30", "75", "95", "100"} {
		src, _ = tool(t, b.Bytes(), "cjpeg", "-quality", quality)
		checkOracle(t, src)
	}
	checkOracle(t, synthetic(t, 600, 400, "-quality 100 -sample 1x1"))
}
