package v2

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/pipefs/pipefs/transcode/l3/internal/layout"
)

// encodeModes are all.
var encodeModes = []Mode{Dense, Fast, FastMixed}

func (m Mode) String() string { return [...]string{"dense", "fast", "fastmixed"}[m] }

// encodeCase is a patch to encode; its samples are interleaved.
type encodeCase struct {
	width, height, channels, depth int
	pix                            []byte
}

func (c *encodeCase) String() string {
	return fmt.Sprintf("%d×%d×%d of %d bits", c.width, c.height, c.channels, c.depth)
}

func (c *encodeCase) target() layout.Target {
	return layout.Interleaved(c.pix, c.width, c.channels, c.depth/8)
}

func (c *encodeCase) encode(mode Mode, w *Workspace) []byte {
	return Encode(nil, c.target(), c.width, c.height, c.channels, c.depth, mode, w)
}

// encodeContents are ways to fill a patch: from what takes nothing to what needs
// all samples raw.
var encodeContents = []struct {
	name   string
	sample func(rng *rand.Rand, x, y, c int) uint32
}{
	{"flat", func(*rand.Rand, int, int, int) uint32 { return 77 }},
	{"gradient", func(_ *rand.Rand, x, y, c int) uint32 { return uint32(2*x + 3*y + 5*c) }},
	{"steep", func(_ *rand.Rand, x, y, c int) uint32 { return uint32(37*x - 91*y + 7*c) }},
	{"noise", func(rng *rand.Rand, _, _, _ int) uint32 { return rng.Uint32() }},
	{"soft", func(rng *rand.Rand, x, y, c int) uint32 { return uint32(60+x/3+y/2+c) + rng.Uint32N(4) }},
	{"rough", func(rng *rand.Rand, x, y, _ int) uint32 { return uint32(x+y) + rng.Uint32N(40) }},
	// Black on white, in strokes.
	{"text", func(rng *rand.Rand, x, y, _ int) uint32 {
		if y%16 < 11 && x%9 < 6 && (x*7+y*y)%5 < 2 {
			return 0
		}
		return 0xffff
	}},
	// A few samples far from the rest: escapes, of all numbers of raw bits.
	{"outliers", func(rng *rand.Rand, x, y, c int) uint32 {
		if rng.IntN(40) == 0 {
			return rng.Uint32()
		}
		return 100 + rng.Uint32N(1+uint32(x/20))
	}},
	// More than maxQuotients small residuals that are not 0.
	{"crowded", func(rng *rand.Rand, x, y, _ int) uint32 { return uint32(x^y)&1*3 + rng.Uint32N(2) }},
	// Channels that have nothing to do with each other.
	{"strangers", func(rng *rand.Rand, x, y, c int) uint32 {
		return []uint32{uint32(x), uint32(y*y) / 16, 9, uint32(x * y)}[c] + rng.Uint32N(2)
	}},
}

func newEncodeCase(rng *rand.Rand, width, height, channels, depth, content int) *encodeCase {
	c := &encodeCase{width, height, channels, depth, nil}
	for y := range height {
		for x := range width {
			for i := range channels {
				v := encodeContents[content].sample(rng, x, y, i)
				c.pix = append(c.pix, byte(v))
				if depth == 16 {
					c.pix = append(c.pix, byte(v>>8))
				}
			}
		}
	}
	return c
}

// wantRoundTrip wants the decoder to return what was encoded.
func (c *encodeCase) wantRoundTrip(t testing.TB, patch []byte) {
	t.Helper()
	var s Scratch
	got := encodeCase{c.width, c.height, c.channels, c.depth, make([]byte, len(c.pix))}
	src := append(bytes.Clone(patch), make([]byte, TailLen)...)
	if err := Decode(got.target(), src, len(patch), c.width, c.height, c.channels, c.depth, &s); err != nil {
		t.Fatalf("%v: %v", c, err)
	}
	for i := range c.pix {
		if got.pix[i] != c.pix[i] {
			t.Fatalf("%v: byte %d is %d, want %d", c, i, got.pix[i], c.pix[i])
		}
	}
}

// eachEncodeCase calls f with patches of all kinds.
func eachEncodeCase(f func(c *encodeCase)) {
	rng := rand.New(rand.NewPCG(1, 2))
	sizes := [][2]int{{1, 1}, {2, 3}, {3, 1}, {1, 40}, {15, 33}, {16, 16}, {31, 32}, {64, 64}, {65, 31}, {63, 97}, {129, 40}, {300, 300}}
	for _, size := range sizes {
		for channels := 1; channels <= 4; channels++ {
			for _, depth := range []int{8, 16} {
				for i := range encodeContents {
					f(newEncodeCase(rng, size[0], size[1], channels, depth, i))
				}
			}
		}
	}
}

// wantSame wants the same bytes of all forms, and returns them. The first form has a
// workspace of its own: what earlier patches left in w must not matter.
func (c *encodeCase) wantSame(t testing.TB, src layout.Target, mode Mode, w *Workspace) (patch []byte) {
	t.Helper()
	for i, form := range encodeForms {
		form.Use()
		if i == 0 {
			patch = Encode(nil, src, c.width, c.height, c.channels, c.depth, mode, new(Workspace))
		}
		wantEqualPatches(t, fmt.Sprintf("%v, %v, %s", c, mode, form.Name),
			Encode(nil, src, c.width, c.height, c.channels, c.depth, mode, w), patch)
	}
	return patch
}

func wantEqualPatches(t testing.TB, what string, got, want []byte) {
	t.Helper()
	if bytes.Equal(got, want) {
		return
	}
	at := 0
	for at < min(len(got), len(want)) && got[at] == want[at] {
		at++
	}
	t.Fatalf("%s: %d bytes, want %d; they differ from %d on", what, len(got), len(want), at)
}
