package v1

import (
	"bytes"
	"math/rand/v2"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/internal/codectest"
)

// checkRoundTrip reads what was written.
func checkRoundTrip(t testing.TB, p *picture, patch int) {
	t.Helper()
	wantDecoded(t, encode(t, p, patch), p)
}

// TestRoundTrips goes through pictures of all kinds.
func TestRoundTrips(t *testing.T) {
	sizes := [][2]int{{1, 1}, {1, 9}, {9, 1}, {2, 2}, {7, 5}, {8, 8}, {31, 3}, {32, 32}, {33, 17}, {63, 65}, {64, 64}, {65, 2}, {96, 20}, {128, 64}, {130, 70}, {257, 9}, {3, 300}}
	patches := []int{1, 2, 7, 8, 15, 32, 33, 64, 65, 100, 128, 255}
	for i, content := range contents {
		t.Run(content.name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, uint64(i)))
			for _, size := range sizes {
				for _, patch := range patches {
					checkRoundTrip(t, newPicture(rng, size[0], size[1], 1+2*rng.IntN(2), i), patch)
				}
			}
		})
	}
}

// TestPatches goes through all patch sizes.
func TestPatches(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for patch := 1; patch <= maxPatch; patch++ {
		for _, channels := range []int{1, 3} {
			checkRoundTrip(t, newPicture(rng, 1+rng.IntN(300), 1+rng.IntN(80), channels, rng.IntN(len(contents))), patch)
		}
		// The plain form.
		checkRoundTrip(t, newPicture(rng, patch*(1+rng.IntN(2)), patch, 3, rng.IntN(len(contents))), patch)
	}
}

// TestLargestPatch has the most bytes that a patch can have: their number takes all
// of its 16 bits.
func TestLargestPatch(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	const noise = 6
	p := newPicture(rng, maxPatch, maxPatch, 3, noise)
	b := encode(t, p, maxPatch)
	if want := HeaderLen - 1 + 3*2 + 3*0xffff; len(b) != want {
		t.Errorf("%d bytes, want %d", len(b), want)
	}
	checkRoundTrip(t, p, maxPatch)
}

// TestExample spells out a file: the one in the documentation of the format.
func TestExample(t *testing.T) {
	p := &picture{3, 2, 1, []byte{
		10, 12, 13,
		11, 12, 15,
	}}
	want := []byte{
		'L', 'L', 'L', '+', 3, 0, 0, 0, 2, 0, 0, 0, 64, 1,
		6, 0, // bytes of the only patch
		// 2 bits, base 10, deltas 0, 2, 3: 0010 00001010 00 10 11, the last bits first.
		0xa2, 0x80, 0x03,
		// Predictions: a is 0 and b = 10 ≤ c = 12 ≤ 3b: 10. a = 10 is farther from b = 12
		// than c = 13, and b not nearer to the middle: 10. c is 0 and a = 12 < b = 13: 12.
		// Residuals 1, 2, 3: 2 bits, base 1, deltas 0, 1, 2.
		0x12, 0x40, 0x02,
	}
	if b := encode(t, p, DefaultPatch); !bytes.Equal(b, want) {
		t.Errorf("% x\nwant % x", b, want)
	}
	wantDecoded(t, want, p)
}

// TestForm wants files to be plain ones wherever these can hold the picture.
func TestForm(t *testing.T) {
	for _, c := range []struct {
		width, height, channels, patch int
		extended                       bool
	}{
		{128, 64, 3, 64, false}, {128, 64, 3, 0, false}, {128, 64, 1, 64, true}, {127, 64, 3, 64, true},
		{128, 65, 3, 64, true}, {5, 5, 3, 5, false}, {5, 5, 3, 1, false}, {5, 5, 3, 10, true},
	} {
		p := &picture{c.width, c.height, c.channels, make([]byte, c.width*c.height*c.channels)}
		h, err := Parse(encode(t, p, c.patch))
		want := Header{c.width, c.height, c.channels, c.patch, c.extended}
		if c.patch == 0 {
			want.Patch = DefaultPatch
		}
		if err != nil || h != want {
			t.Errorf("%+v, %v, want %+v", h, err, want)
		}
	}
}

// TestVectors decodes what other encoders wrote, and writes it again.
func TestVectors(t *testing.T) {
	name := regexp.MustCompile(`^(.*)\.n(\d+)(\.ref)?\.l3$`)
	paths := testenv.Shared(t, "l3/*.l3")
	same := 0
	for _, path := range paths {
		m := name.FindStringSubmatch(filepath.Base(path))
		if m == nil {
			t.Fatalf("what is %s?", path)
		}
		want, src := readPPM(t, filepath.Join(filepath.Dir(path), m[1]+".ppm")), read(t, path)
		wantDecoded(t, src, want)
		patch, _ := strconv.Atoi(m[2])
		switch got := encode(t, want, patch); {
		case bytes.Equal(got, src):
			same++
		case m[3] != "":
			t.Errorf("%s: other bytes than the authors' encoder", path)
		default:
			t.Logf("%s: other bytes, %d, there are %d", path, len(got), len(src))
		}
	}
	t.Logf("%d files, %d of them encoded with the same bytes", len(paths), same)
}

// TestVectorPictures takes the pictures that have no file through the extension.
func TestVectorPictures(t *testing.T) {
	paths := testenv.Shared(t, "l3/o*.ppm")
	for _, path := range paths {
		for _, patch := range []int{1, 7, 8, 64, 128, 255} {
			p := readPPM(t, path)
			b := encode(t, p, patch)
			if plain := p.width%patch == 0 && p.height%patch == 0; strings.HasPrefix(string(b), magic) != plain {
				t.Errorf("%v in patches of %d: starts with %q", p, patch, b[:4])
			}
			wantDecoded(t, b, p)
		}
	}
}

// FuzzDecode gives anything to the decoder. What it makes something of, it
// must make that of again when it has been encoded.
func FuzzDecode(f *testing.F) {
	for i, patch := range []int{1, 3, 8, 40, 64, 100} {
		p := newPicture(testRand(uint64(i)), 1+7*i, 3+i, 1+i%2*2, len(contents)-1-i)
		f.Add(encode(f, p, patch))
	}
	f.Add(file32("LLL.", 1<<30, 1<<30, 1))
	f.Fuzz(func(t *testing.T, src []byte) {
		if checkKind(t, src) != nil {
			return
		}
		h, _ := Parse(src)
		p, err := decode(src)
		testenv.Must(t, err)
		checkRoundTrip(t, p, h.Patch)
	})
}

// FuzzRoundTrip encodes pictures of any samples.
func FuzzRoundTrip(f *testing.F) {
	f.Add([]byte{0}, uint16(1), uint8(64), true)
	f.Add([]byte("0123456789abcdefghijklmnopqrstuvwxyz"), uint16(3), uint8(2), false)
	f.Add(newPicture(testRand(1), 40, 6, 3, 6).pix, uint16(40), uint8(33), true)
	f.Fuzz(func(t *testing.T, pix []byte, width uint16, patch uint8, colour bool) {
		channels := 1
		if colour {
			channels = 3
		}
		if width == 0 || patch == 0 || len(pix) > 1<<16 {
			return
		}
		height := len(pix) / (int(width) * channels)
		if height == 0 {
			return
		}
		checkRoundTrip(t, &picture{int(width), height, channels, pix[:int(width)*height*channels]}, int(patch))
	})
}

// specified is predict as the format has it.
func specified(a, b, c int) int {
	distance := func(p, q int) int { return max(p-q, q-p) }
	pa, pb, pc := distance(c, b), distance(a+c, 2*b), distance(a, b)
	switch {
	case a == 0:
		if pb <= pc {
			return b
		}
		return c
	case c == 0:
		if pa <= pb {
			return a
		}
		return b
	case pa <= pb && pa <= pc:
		return a
	case pa <= pc:
		return b
	}
	return c
}

// TestPredict tries everything there is.
func TestPredict(t *testing.T) {
	for a := range 256 {
		for b := range 256 {
			for c := range 256 {
				var got [1]byte
				predict(got[:], []byte{byte(a), byte(b), byte(c)})
				if want := specified(a, b, c); int(got[0]) != want {
					t.Fatalf("%d from %d, %d, %d, want %d", got[0], a, b, c, want)
				}
			}
		}
	}
}

// layouts are those that have a way of their own, and some that have none. Memory
// is given to them later.
var layouts = []struct {
	name   string
	layout func(w, h, channels int) transcode.Layout
}{
	{"interleaved", func(w, h, n int) transcode.Layout { return transcode.Layout{Row: w * n, Pixel: n, Channel: 1} }},
	{"gaps", func(w, h, n int) transcode.Layout { return transcode.Layout{Row: w*n + 13, Pixel: n, Channel: 1} }},
	{"reversed", func(w, h, n int) transcode.Layout {
		return transcode.Layout{Base: n - 1, Row: w * n, Pixel: n, Channel: -1}
	}},
	{"bmp", func(w, h, n int) transcode.Layout {
		stride := (w*n + 3) &^ 3
		return transcode.Layout{Base: (h-1)*stride + n - 1, Row: -stride, Pixel: n, Channel: -1}
	}},
	{"planar", func(w, h, n int) transcode.Layout { return transcode.Layout{Row: w, Pixel: 1, Channel: w * h} }},
	{"planarUpwards", func(w, h, n int) transcode.Layout {
		return transcode.Layout{Base: (h - 1) * w, Row: -w, Pixel: 1, Channel: w * h}
	}},
	{"planarBackwards", func(w, h, n int) transcode.Layout {
		return transcode.Layout{Base: (n - 1) * w * h, Row: w, Pixel: 1, Channel: -w * h}
	}},
	{"planarGaps", func(w, h, n int) transcode.Layout {
		return transcode.Layout{Base: 5, Row: w + 3, Pixel: 1, Channel: (w+3)*h + 7}
	}},
	{"rowsOfChannels", func(w, h, n int) transcode.Layout { return transcode.Layout{Row: n * w, Pixel: 1, Channel: w} }},
	{"four", func(w, h, n int) transcode.Layout { return transcode.Layout{Base: 1, Row: 4 * w, Pixel: 4, Channel: 1} }},
	{"wide", func(w, h, n int) transcode.Layout { return transcode.Layout{Row: 2 * n * w, Pixel: 2 * n, Channel: 2} }},
	{"mirrored", func(w, h, n int) transcode.Layout {
		return transcode.Layout{Base: (w - 1) * n, Row: w * n, Pixel: -n, Channel: 1}
	}},
	{"threeApart", func(w, h, n int) transcode.Layout { return transcode.Layout{Row: 3 * w, Pixel: 3, Channel: 3 * w * h} }},
	{"turned", func(w, h, n int) transcode.Layout { return transcode.Layout{Row: n, Pixel: n * h, Channel: 1} }},
}

// extent is how much memory a layout with positions from 0 on takes.
func extent(l transcode.Layout, w, h, channels int) int {
	n := 0
	for _, x := range []int{0, w - 1} {
		for _, y := range []int{0, h - 1} {
			for c := range channels {
				n = max(n, 1+l.At(x, y, c))
			}
		}
	}
	return n
}

// TestLayouts writes to and reads from all of them, between pages that cannot be
// touched.
func TestLayouts(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	for _, size := range [][2]int{{1, 1}, {5, 3}, {32, 4}, {64, 64}, {70, 66}, {128, 64}, {131, 13}, {200, 129}} {
		w, h := size[0], size[1]
		for _, patch := range []int{5, 32, 40, 64, 100, 128} {
			for _, channels := range []int{1, 3} {
				p := newPicture(rng, w, h, channels, rng.IntN(len(contents)))
				src := encode(t, p, patch)
				for _, l := range layouts {
					target := transcode.Target{Layout: l.layout(w, h, channels)}
					for _, atEnd := range []bool{false, true} {
						pix, free := codectest.Guarded(t, extent(target.Layout, w, h, channels), atEnd)
						target.Pix = pix
						checkLayout(t, l.name, target, p, src, patch)
						free()
					}
				}
			}
		}
	}
}

func checkLayout(t *testing.T, name string, target transcode.Target, p *picture, src []byte, patch int) {
	t.Helper()
	const untouched = 0xa5
	for i := range target.Pix {
		target.Pix[i] = untouched
	}
	want := bytes.Clone(target.Pix)
	for y := range p.height {
		for x := range p.width {
			for c := range p.channels {
				want[target.At(x, y, c)] = p.pix[(y*p.width+x)*p.channels+c]
			}
		}
	}
	if err := Decode(target, src); err != nil {
		t.Fatalf("%s: %v in patches of %d: %v", name, p, patch, err)
	}
	if !bytes.Equal(target.Pix, want) {
		for i := range want {
			if target.Pix[i] != want[i] {
				t.Fatalf("%s: %v in patches of %d: byte %d of %d is %d, want %d", name, p, patch, i, len(want), target.Pix[i], want[i])
			}
		}
	}
	got, err := Encode(target, p.width, p.height, p.channels, patch)
	if err != nil || !bytes.Equal(got, src) {
		t.Fatalf("%s: %v in patches of %d: other bytes than from interleaved pixels, %v", name, p, patch, err)
	}
}

// TestSourceMemory reads files between pages that cannot be touched.
func TestSourceMemory(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	for range 200 {
		p := newPicture(rng, 1+rng.IntN(150), 1+rng.IntN(20), 1+2*rng.IntN(2), rng.IntN(len(contents)))
		b := encode(t, p, 1+rng.IntN(maxPatch))
		for _, atEnd := range []bool{false, true} {
			src, free := codectest.Guarded(t, len(b), atEnd)
			copy(src, b)
			wantDecoded(t, src, p)
			free()
		}
	}
}
