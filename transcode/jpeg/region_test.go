package jpeg

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/transcode"
)

// regions are rectangles of a picture: its corners, edges and all of it, and n at random,
// of which half are small.
func regions(rng *rand.Rand, width, height, n int) []image.Rectangle {
	all := []image.Rectangle{
		image.Rect(0, 0, width, height), image.Rect(0, 0, 1, 1), image.Rect(width-1, height-1, width, height),
		image.Rect(width-1, 0, width, 1), image.Rect(0, height-1, 1, height),
		image.Rect(0, 0, width, 1), image.Rect(0, height-1, width, height), image.Rect(width/2, 0, width/2+1, height),
	}
	for i := range n {
		w, h := 1+rng.IntN(width), 1+rng.IntN(height)
		if i%2 == 0 {
			w, h = min(w, 20), min(h, 20)
		}
		all = append(all, image.Rect(0, 0, w, h).Add(image.Pt(rng.IntN(width-w+1), rng.IntN(height-h+1))))
	}
	return all
}

// cut returns the pixels of a rectangle of m.
func cut(m *Image, r image.Rectangle) *Image {
	out := &Image{Width: r.Dx(), Height: r.Dy(), Channels: m.Channels}
	for y := r.Min.Y; y < r.Max.Y; y++ {
		row := m.Pix[y*m.Width*m.Channels:]
		out.Pix = append(out.Pix, row[r.Min.X*m.Channels:r.Max.X*m.Channels]...)
	}
	return out
}

// checkRegion demands of the pixels of a rectangle that they are those of the whole picture.
func checkRegion(t testing.TB, src []byte, whole *Image, r image.Rectangle, lim Limits) {
	t.Helper()
	got, err := DecodeRegion(src, r, lim)
	if err != nil {
		t.Fatalf("%v: %v", r, err)
	}
	samePixels(t, fmt.Sprint(r), got, cut(whole, r))
}

// checkRegions compares so many rectangles, and others, with the whole picture.
func checkRegions(t testing.TB, src []byte, n int) {
	t.Helper()
	whole, err := DecodePixels(src, 1, Limits{})
	testenv.Must(t, err)
	rng := rand.New(rand.NewPCG(uint64(len(src)), 1))
	for _, r := range regions(rng, whole.Width, whole.Height, n) {
		checkRegion(t, src, whole, r, Limits{})
	}
	for _, r := range []image.Rectangle{
		image.Rect(0, 0, whole.Width+1, 1), image.Rect(0, 0, 1, whole.Height+1), image.Rect(-1, 0, 1, 1),
	} {
		if _, err := DecodeRegion(src, r, Limits{}); err == nil {
			t.Errorf("%v of %d×%d pixels", r, whole.Width, whole.Height)
		}
	}
}

// TestRegion goes through samplings, sizes and codings.
func TestRegion(t *testing.T) {
	codings := []string{"", "-progressive", "-restart 1B", "-restart 3B", "-restart 1", "-progressive -restart 2B", "-optimize -quality 95"}
	i := 0
	for _, sampling := range append([]string{"1x1 -grayscale", "2x2 -grayscale", "1x1 -rgb", "1x1 -scans separate", "2x2 -scans mixed", "2x2 -scans deep"}, pixelSamplings...) {
		for _, w := range []int{1, 2, 3, 5, 9, 17, 18, 33, 70, 131} {
			h := []int{1, 3, 8, 17, 2, 34, 65, 100, 16}[i%9]
			options := "-sample " + sampling
			if !strings.Contains(sampling, "scans") {
				options += " " + codings[i%len(codings)]
			}
			i++
			t.Run(fmt.Sprintf("%dx%d/%s", w, h, strings.ReplaceAll(options, " -", "/")), func(t *testing.T) {
				checkRegions(t, synthetic(t, w, h, options), 40)
			})
		}
	}
}

// TestRegionSmoothing takes files whose last scans are missing, some of them from their end
// on, without EOI in the middle of a scan.
func TestRegionSmoothing(t *testing.T) {
	for _, options := range []string{"-progressive", "-progressive -sample 1x1", "-grayscale -progressive", "-scans deep -sample 1x2", "-scans spectral", "-progressive -restart 1"} {
		for _, size := range [][2]int{{17, 9}, {40, 65}, {65, 130}, {150, 81}} {
			t.Run(fmt.Sprintf("%dx%d/%s", size[0], size[1], strings.ReplaceAll(options, " -", "/")), func(t *testing.T) {
				src := synthetic(t, size[0], size[1], options)
				files := cuts(t, src)
				for n := len(src) / 3; n < len(src); n += 1 + len(src)/10 {
					files = append(files, append(bytes.Clone(src[:n]), EOI[:]...))
				}
				for _, file := range files {
					if _, err := DecodePixels(file, 1, Limits{}); err == nil {
						checkRegions(t, file, 20)
					}
				}
			})
		}
	}
}

// TestRegionPhotographs takes photographs, as they are and as progressive files.
func TestRegionPhotographs(t *testing.T) {
	files := photographs(t)
	for i, file := range append(files, testenv.Shared(t, "imagenet/*.JPEG")...) {
		src := read(t, file)
		checkRegions(t, src, 6)
		if i%10 == 0 {
			s, err := Transcode(src, Options{})
			testenv.Must(t, err)
			checkRegions(t, s.Data, 3)
			checkRegions(t, append(bytes.Clone(s.Data[:s.Ends[i/10%5]]), EOI[:]...), 3)
		}
	}
}

// judged demands that a rectangle of a file which may be damaged has the pixels of the whole
// picture, or is refused like it. One kind of damage is not noticed where no pixel comes from
// it, and makes the whole picture be refused.
func judged(t testing.TB, src []byte, whole *Image, wholeErr error, r image.Rectangle, lim Limits) {
	t.Helper()
	if wholeErr == nil {
		checkRegion(t, src, whole, r, lim)
		return
	}
	_, err := DecodeRegion(src, r, lim)
	checkKind(t, err)
	if err != nil {
		return
	}
	var w pixelWorkspace
	w.dec.render, w.dec.repair = &w.render, true
	if err := w.dec.decode(src, lim, &w.c); err == nil || !strings.Contains(err.Error(), "out of range") {
		t.Fatalf("%v has pixels, and the whole picture has not: %v, %v", r, wholeErr, err)
	}
}

// TestRegionTruncated wants every file that ends too early to be refused, whatever is taken
// of it.
func TestRegionTruncated(t *testing.T) {
	for name, src := range small(t) {
		rng := rand.New(rand.NewPCG(5, 1))
		for n := range src {
			whole, wholeErr := DecodePixels(src[:n], 1, Limits{})
			for _, r := range regions(rng, 40, 30, 4)[1:] {
				judged(t, src[:n], whole, wholeErr, r, Limits{})
				if t.Failed() {
					t.Fatalf("%s, the first %d bytes", name, n)
				}
			}
		}
	}
}

// TestRegionDamaged wants of files with wrong bits what judged says.
func TestRegionDamaged(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 1))
	var files [][]byte
	for _, options := range []string{
		"-quality 90", "-sample 1x1 -restart 1", "-sample 2x1 -restart 3B", "-grayscale -restart 1B", "-rgb -quality 100",
		"-progressive", "-progressive -sample 1x2 -restart 1", "-scans deep", "-scans separate",
	} {
		files = append(files, synthetic(t, 70, 90, options))
		if all := cuts(t, files[len(files)-1]); len(all) > 3 {
			files = append(files, all[len(all)/2-1], all[0])
		}
	}
	repaired := 0
	for range 4000 {
		file := files[rng.IntN(len(files))]
		src := bytes.Clone(file)
		sos := bytes.Index(file, []byte{0xFF, mSOS})
		for range 1 + rng.IntN(3) {
			at := sos + 2 + rng.IntN(len(src)-sos-4)
			switch rng.IntN(4) {
			case 0:
				src[at] ^= 1 << rng.IntN(8)
			case 1:
				src[at] = 0xFF
			case 2:
				copy(src[at:], []byte{0xFF, mRST0 + byte(rng.IntN(8))})
			case 3:
				src = append(src[:at], src[at+1+rng.IntN(len(src)-at-2):]...)
			}
			if len(src) < sos+10 {
				break
			}
		}
		whole, wholeErr := DecodePixels(src, 1, Limits{})
		if wholeErr == nil {
			repaired++
		}
		for _, r := range regions(rng, 70, 90, 6) {
			judged(t, src, whole, wholeErr, r, Limits{})
		}
	}
	t.Logf("%d files have pixels", repaired)
	if repaired < 100 {
		t.Error("too few")
	}
}

// TestRegionUnread has DC coefficients that grow until they leave 32 bits, for which libjpeg
// gives up. The first block has pixels; what takes more of the picture has none.
func TestRegionUnread(t *testing.T) {
	const wide, high = 9, 8191 // blocks
	src := []byte{0xFF, mSOI, 0xFF, mDQT, 0, 67, 0}
	src = append(src, bytes.Repeat([]byte{1}, 64)...)
	src = append(src, 0xFF, mSOF0, 0, 11, 8, high*8>>8, high*8&255, 0, wide*8, 1, 1, 0x11, 0)
	// One code of one bit each: 0 is a difference of 15 bits, and the end of a block.
	src = append(src, 0xFF, mDHT, 0, 20, 0x00, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 15)
	src = append(src, 0xFF, mDHT, 0, 20, 0x10, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
	src = append(src, 0xFF, mSOS, 0, 8, 1, 1, 0, 0, 63, 0)
	bits := strings.Repeat("0"+"111111111111110"+"0", wide*high)
	for bits += strings.Repeat("1", (8-len(bits)%8)%8); bits != ""; bits = bits[8:] {
		v, _ := strconv.ParseUint(bits[:8], 2, 8)
		if src = append(src, byte(v)); v == 0xFF {
			src = append(src, 0)
		}
	}
	src = append(src, EOI[:]...)
	whole, err := DecodePixels(src, 1, Limits{})
	if !errors.Is(err, transcode.ErrBad) {
		t.Fatalf("the whole picture: %v", err)
	}
	if _, err := DecodeRegion(src, image.Rect(1, 0, 8, 7), Limits{}); err != nil {
		t.Error(err)
	}
	judged(t, src, whole, err, image.Rect(1, 0, 8, 7), Limits{})
	if _, err := DecodeRegion(src, image.Rect(1, 0, 9, 7), Limits{}); !errors.Is(err, transcode.ErrBad) {
		t.Errorf("with the second block: %v", err)
	}
}

// TestMissingComponent wants the pixels of libjpeg-turbo for a file that has no scan of some
// component, whatever was decoded in the same memory before.
func TestMissingComponent(t *testing.T) {
	all := cuts(t, synthetic(t, 40, 30, "-scans separate"))
	want := &Image{40, 30, 3, make([]byte, 40*30*3)}
	for _, before := range []string{"-quality 20", "-quality 90", "-scans separate"} {
		var w pixelWorkspace
		w.render.wanted = wanted{scale: 1}
		_, err := w.decode(synthetic(t, 40, 30, before), Limits{})
		testenv.Must(t, err)
		got, err := w.decode(all[0], Limits{})
		testenv.Must(t, err)
		_ = decompress(t, all[0], want)
		samePixels(t, before, got, want)
	}
}

// FuzzRegion takes any bytes and any rectangle.
func FuzzRegion(f *testing.F) {
	files := [][]byte{}
	for _, options := range []string{"-quality 30", "-progressive -sample 1x2", "-sample 4x1 -restart 1", "-grayscale -progressive -restart 1B", "-scans separate"} {
		src := synthetic(f, 35, 50, options)
		files = append(append(files, src), cuts(f, src)...)
	}
	for _, src := range files {
		f.Add(src, uint16(3), uint16(5), uint16(9), uint16(11))
		f.Add(src[:len(src)*3/4], uint16(0), uint16(20), uint16(35), uint16(1))
		f.Add(append(bytes.Clone(src[:len(src)/2]), EOI[:]...), uint16(30), uint16(0), uint16(5), uint16(40))
	}
	f.Fuzz(func(t *testing.T, src []byte, x, y, width, height uint16) {
		h, err := ParseHeader(src, fuzzLimits)
		if err != nil {
			return
		}
		x0, y0 := int(x)%h.Width, int(y)%h.Height
		r := image.Rect(x0, y0, x0+1+int(width)%(h.Width-x0), y0+1+int(height)%(h.Height-y0))
		whole, err := DecodePixels(src, 1, fuzzLimits)
		judged(t, src, whole, err, r, fuzzLimits)
	})
}
