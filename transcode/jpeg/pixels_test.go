package jpeg

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/transcode"
)

// pixelSamplings are all ratios that upsampling tells apart, in several ways.
var pixelSamplings = []string{
	"1x1", "2x2", "2x1", "1x2", "4x1", "1x4", "4x2", "2x4", "3x1", "1x3", "3x2",
	"2x2,1x1,2x1", "2x2,2x1,1x2", "2x2,1x2,2x1", "4x1,2x1,1x1", "1x4,1x2,1x1", "4x1,1x1,2x1", "1x4,1x2,1x4",
	"1x1,2x2,1x1", "1x1,2x1,1x2", "1x1,1x1,2x2", "1x2,2x1,1x1", "1x1,4x1,2x1", "2x2,2x2,1x1", "2x1,2x1,2x1",
}

// TestPixels compares with libjpeg-turbo over samplings, sizes, codings and
// scales.
func TestPixels(t *testing.T) {
	codings := []string{"", "-progressive", "-restart 1", "-optimize -quality 95", "-quality 20", "-progressive -quality 10", "-quality 100"}
	pixelsCompared = 0
	i := 0
	for _, sampling := range pixelSamplings {
		for _, w := range []int{1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 40, 65} {
			h := []int{1, 3, 8, 17, 2, 24, 33, 9, 16, 5, 40, 70}[i%12]
			options := "-sample " + sampling + " " + codings[i%len(codings)]
			i++
			t.Run(fmt.Sprintf("%dx%d/%s", w, h, strings.ReplaceAll(options, " -", "/")), func(t *testing.T) {
				checkPixels(t, synthetic(t, w, h, options))
			})
		}
	}
	for h := 1; h <= 40; h++ {
		for _, options := range []string{"-sample 2x2", "-sample 1x2 -progressive", "-sample 2x1,1x2,1x1", "-grayscale -sample 2x2", "-rgb -sample 2x2,1x1,2x2"} {
			w := 1 + h*7%40
			t.Run(fmt.Sprintf("%dx%d/%s", w, h, strings.ReplaceAll(options, " -", "/")), func(t *testing.T) {
				checkPixels(t, synthetic(t, w, h, options))
			})
		}
	}
	t.Logf("%d pictures compared", pixelsCompared)
}

// cuts returns the file with its first scans only, for each number of scans.
func cuts(t testing.TB, src []byte) [][]byte {
	t.Helper()
	var files [][]byte
	for _, end := range scanEnds(t, src) {
		files = append(files, append(bytes.Clone(src[:end]), EOI[:]...))
	}
	return files
}

// TestSmoothing compares with libjpeg-turbo for files whose last scans are
// missing.
func TestSmoothing(t *testing.T) {
	options := []string{
		"-sample 2x2", "-sample 1x1", "-sample 2x1", "-sample 1x2", "-sample 1x4", "-sample 1x3", "-grayscale", "-grayscale -sample 2x2",
		"-grayscale -sample 1x4", "-rgb", "-rgb -sample 1x2", "-sample 2x2 -quality 3", "-quality 100", "-sample 1x1,2x2,1x2",
		"-scans spectral", "-scans deep", "-scans deep -sample 1x1", "-scans unfinished",
	}
	pixelsCompared = 0
	for _, options := range options {
		if !strings.Contains(options, "-scans") {
			options += " -progressive"
		}
		for _, size := range [][2]int{
			{1, 1}, {8, 8}, {9, 9}, {16, 16}, {17, 17}, {24, 40}, {25, 33}, {40, 24}, {48, 48}, {65, 130}, {130, 65}, {33, 97}, {150, 81},
		} {
			t.Run(fmt.Sprintf("%dx%d/%s", size[0], size[1], strings.ReplaceAll(options, " -", "/")), func(t *testing.T) {
				for i, cut := range cuts(t, synthetic(t, size[0], size[1], options)) {
					if _, err := coefficientsOf(cut, Limits{}); err != nil {
						continue // DC of some component is missing
					}
					t.Run(fmt.Sprintf("%d", i+1), func(t *testing.T) { checkPixels(t, cut) })
				}
			})
		}
	}
	t.Logf("%d pictures compared", pixelsCompared)
}

// TestFourComponents takes CMYK and YCCK, which cjpeg cannot write, in all that is done with a
// file.
func TestFourComponents(t *testing.T) {
	for _, kind := range []string{"cmyk", "ycck", "bare"} {
		files, _ := filepath.Glob(filepath.Join(flavours(t), "*_"+kind+"_*.jpg"))
		if len(files) != 36 {
			t.Fatalf("%d files", len(files))
		}
		for _, file := range files {
			t.Run(filepath.Base(file), func(t *testing.T) {
				src := read(t, file)
				for _, cut := range cuts(t, src) {
					checkPixels(t, cut)
				}
				s := checkOracle(t, src)
				if len(s.Ends) != 18 || s.Levels[9] != 18 {
					t.Errorf("%d scans, levels %v", len(s.Ends), s.Levels)
				}
				checkReconstruction(t, src, 0)
				checkSequential(t, src)
			})
		}
	}
}

// TestPixelsPhotographs compares with libjpeg-turbo for photographs, as they are
// and at each fidelity of the transcoded file.
func TestPixelsPhotographs(t *testing.T) {
	for i, file := range photographs(t) {
		src := read(t, file)
		checkPixels(t, src)
		s, err := Transcode(src, Options{})
		testenv.Must(t, err)
		for k, end := range s.Ends {
			if i%8 == k%8 {
				checkPixels(t, append(bytes.Clone(s.Data[:end]), EOI[:]...))
			}
		}
	}
}

// TestPixelsMutated compares with libjpeg-turbo for files with wrong bits: in
// quantisation tables, so that values overflow, in sampling factors, and in
// entropy-coded data, as far as it can still be decoded.
func TestPixelsMutated(t *testing.T) {
	const rounds = 6000
	rng := rand.New(rand.NewPCG(3, 1))
	var files [][]byte
	for _, options := range []string{
		"-quality 90", "-quality 30 -sample 1x1", "-sample 2x1 -restart 1", "-grayscale", "-rgb -quality 100", "-sample 1x4",
		"-progressive", "-progressive -sample 1x2 -quality 95", "-grayscale -progressive", "-scans deep",
	} {
		files = append(files, synthetic(t, 41, 27, options))
		if all := cuts(t, files[len(files)-1]); len(all) > 3 {
			files = append(files, all[len(all)/2-1], all[0])
		}
	}
	compared := 0
	for range rounds {
		file := files[rng.IntN(len(files))]
		src := bytes.Clone(file)
		sos, dqt := bytes.Index(file, []byte{0xFF, mSOS}), bytes.Index(file, []byte{0xFF, mDQT})
		sof := max(bytes.Index(file[:sos], []byte{0xFF, mSOF0}), bytes.Index(file[:sos], []byte{0xFF, mSOF2}))
		for range 1 + rng.IntN(3) {
			switch rng.IntN(8) {
			case 0, 1: // the entropy-coded data and, if progressive, what is between
				src[sos+14+rng.IntN(len(src)-sos-16)] ^= 1 << rng.IntN(8)
			case 2, 3: // any entry of a quantisation table
				src[dqt+5+rng.IntN(64)] = byte(rng.IntN(256))
			case 4, 5: // one of its low frequencies
				src[dqt+5+rng.IntN(3)] = 255
			case 6: // the sampling factors of a component
				src[sof+11+3*rng.IntN(int(file[sof+9]))] = byte(1+rng.IntN(4))<<4 | byte(1+rng.IntN(4))
			}
		}
		scale := 1 << rng.IntN(4)
		got, err := DecodePixels(src, scale, Limits{})
		checkKind(t, err)
		if err != nil || ambiguous(41, 27, scale) {
			continue
		}
		want := &Image{got.Width, got.Height, got.Channels, make([]byte, len(got.Pix))}
		if decompress(t, src, want) == nil {
			samePixels(t, fmt.Sprintf("% X, 1/%d", src, scale), got, want)
			compared++
		}
	}
	t.Logf("%d of %d files compared", compared, rounds)
	if compared < rounds/10 {
		t.Error("too few")
	}
}

// TestPixelsErrors wants the same kind of error as Decode has, and no memory for
// pictures that are not there.
func TestPixelsErrors(t *testing.T) {
	kind := func(err error) error {
		for _, kind := range kinds {
			if errors.Is(err, kind) {
				return kind
			}
		}
		return nil
	}
	for _, options := range []string{"", "-progressive", "-restart 1", "-scans mixed"} {
		src := synthetic(t, 33, 21, options)
		for n := range src {
			_, want := coefficientsOf(src[:n], Limits{})
			if _, err := DecodePixels(src[:n], 1, Limits{}); !errors.Is(err, kind(want)) {
				t.Errorf("%s, %d bytes: %v, want %v", options, n, err, want)
			}
		}
	}
	src := synthetic(t, 33, 21, "-sample 3x1")
	sof := bytes.Index(src, []byte{0xFF, mSOF0})
	for name, c := range map[string]struct {
		at    int
		value byte
		scale int
		want  error
	}{
		"scale":                  {0, 0xFF, 3, transcode.ErrUnsupported},
		"fractions of samples":   {sof + 14, 0x21, 1, transcode.ErrUnsupported},
		"more than the file has": {sof + 7, 0x7F, 1, transcode.ErrTruncated},
	} {
		b := bytes.Clone(src)
		b[c.at] = c.value
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, err := DecodePixels(b, c.scale, Limits{}); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > 1<<20 {
			t.Errorf("%s: %d bytes allocated", name, n)
		}
	}
	if _, err := DecodePixels(src, 1, Limits{MaxPixels: 600}); !errors.Is(err, transcode.ErrUnsupported) {
		t.Errorf("over the limit: %v", err)
	}
}

// TestConcurrent decodes and transcodes pictures of several kinds, and rectangles of them, at
// once, each with working memory that another one left.
func TestConcurrent(t *testing.T) {
	files := [][]byte{
		synthetic(t, 100, 75, ""), synthetic(t, 17, 33, "-progressive"), synthetic(t, 64, 8, "-grayscale"),
		synthetic(t, 40, 99, "-sample 1x4"), synthetic(t, 33, 21, "-scans mixed"), synthetic(t, 33, 21, "")[:600],
	}
	files = append(files, cuts(t, files[1])[:2]...)
	decode := func(src []byte) (pix [3][]byte) {
		if m, err := DecodePixels(src, 2, Limits{}); err == nil {
			pix[0] = m.Pix
		}
		if m, err := DecodeRegion(src, image.Rect(3, 2, 15, 7), Limits{}); err == nil {
			pix[1] = m.Pix
		}
		if s, err := Transcode(src, Options{}); err == nil {
			pix[2] = s.Data
		}
		return pix
	}
	var want [][3][]byte
	for _, src := range files {
		want = append(want, decode(src))
	}
	var wg sync.WaitGroup
	for worker := range 4 {
		wg.Go(func() {
			for i := range 200 {
				n := (i*(worker+1) + worker) % len(files)
				if !reflect.DeepEqual(decode(files[n]), want[n]) {
					t.Errorf("file %d: other pixels", n)
				}
			}
		})
	}
	wg.Wait()
}
