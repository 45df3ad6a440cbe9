package v2

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/internal/codectest"
)

// TestEncodeUses wants the patches of these tests to use all that the format has.
func TestEncodeUses(t *testing.T) {
	var w Workspace
	used := map[string]int{}
	eachEncodeCase(func(c *encodeCase) {
		p := Encode(nil, c.target(), c.width, c.height, c.channels, c.depth, Dense, &w)
		if c.channels >= 3 {
			used[fmt.Sprint("colour ", p[0])]++
		}
		for i := range c.channels {
			used[fmt.Sprint("predictor ", p[1]>>(2*i)&3)]++
		}
		table := headLen + 4*streams
		for i := range streams {
			if binary.LittleEndian.Uint32(p[headLen+4*i:]) > 0 {
				used[fmt.Sprint("stream ", i)]++
			}
		}
		for _, v := range p[table:][:2*w.groups*c.channels*c.depth/8] {
			used[fmt.Sprint("code ", v&15)]++
			used[fmt.Sprint("code ", v>>4)]++
		}
	})
	for what, n := range map[string]int{"colour": colours, "predictor": preds, "stream": streams, "code": codes} {
		for i := range n {
			if used[fmt.Sprint(what, " ", i)] == 0 {
				t.Errorf("%s %d is never used", what, i)
			}
		}
	}
}

// TestEncodeModes wants the same bytes of each mode in all forms and forever, since what is
// stored is found by its name: fast patches without anything but MED and raw samples.
func TestEncodeModes(t *testing.T) { encodeForms.Each(t, testEncodeModes) }

func testEncodeModes(t *testing.T) {
	var w Workspace
	for mode, want := range map[Mode]struct {
		preds int
		flags byte
		sum   string
	}{
		Dense: {preds, flagRice, "b79f3412d7b1d242d7067802085304df748284d43c45e83505dbc301d93dc325"},
		Fast:  {1, 0, "43827e7d37357ea2e41e6fc76edd38437b611a076c88e0487812b268b65c8f5c"},
	} {
		h, used := sha256.New(), map[byte]bool{}
		eachEncodeCase(func(c *encodeCase) {
			p := c.encode(mode, &w)
			h.Write(p)
			if p[2] != want.flags {
				t.Fatalf("%v, %v: flags %#x", c, mode, p[2])
			}
			for i := range c.channels {
				used[p[1]>>(2*i)&3] = true
			}
		})
		if len(used) != want.preds || !used[predMED] {
			t.Errorf("%v: predictors %v, want %d", mode, used, want.preds)
		}
		if got := hex.EncodeToString(h.Sum(nil)); got != want.sum {
			t.Errorf("%v: %s, want %s", mode, got, want.sum)
		}
	}
}

// TestEncodeLayouts wants the same bytes from wherever the samples are.
func TestEncodeLayouts(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	encodeForms.Each(t, func(t *testing.T) {
		var w Workspace
		for channels := 1; channels <= 4; channels++ {
			for _, depth := range []int{8, 16} {
				for _, width := range []int{5, 16, 70} {
					c := newEncodeCase(rng, width, 37, channels, depth, 4)
					want := Encode(nil, c.target(), c.width, c.height, channels, depth, Dense, &w)
					size := depth / 8
					for name, layout := range map[string]transcode.Layout{
						"planar":           {Row: c.width * size, Pixel: size, Channel: c.width * c.height * size},
						"part":             {Base: 11, Row: 3 * width * channels * size, Pixel: channels * size, Channel: size},
						"backwards":        {Base: c.height * width * channels * size, Row: -width * channels * size, Pixel: channels * size, Channel: -size},
						"wide pixels":      {Row: width * 8 * size, Pixel: 8 * size, Channel: size},
						"right to left":    {Base: width * channels * size, Row: width * channels * size, Pixel: -channels * size, Channel: size},
						"column by column": {Row: channels * size, Pixel: c.height * channels * size, Channel: size},
					} {
						to := transcode.Target{Pix: make([]byte, 20+3*len(c.pix)+width*c.height*8*size), Layout: layout}
						from := c.target()
						for y := range c.height {
							for x := range c.width {
								for i := range channels {
									copy(to.Pix[to.At(x, y, i):][:size], from.Pix[from.At(x, y, i):])
								}
							}
						}
						got := Encode(nil, to, c.width, c.height, channels, depth, Dense, &w)
						wantEqualPatches(t, fmt.Sprintf("%v, %s", c, name), got, want)
					}
				}
			}
		}
	})
}

// TestEncodeChoice compares codes and costs with sums over samples.
func TestEncodeChoice(t *testing.T) {
	encodeForms.Each(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(5, 6))
		var w Workspace
		over := 0
		for i := range 2_000 {
			w.prepare(geometryOf(1, 1), 8, trial{preds, i%4 != 0})
			c := candidate{parts: [2]*coded{w.take()}}
			want, wantBits := make([]uint16, w.groups), 0
			for g := range want {
				for b := range lanes / blockSteps {
					z := residualsToChoose(rng)
					for j, v := range z {
						c.parts[0].lanes[lanesBefore+8*g+(8*b+j/8)*(w.pitch-1)+j%8] = byte(v)
					}
					code, cost, overruled := slowChoice(z, w.rice)
					over += overruled
					want[g] |= uint16(code) << (4 * b)
					wantBits += cost
				}
			}
			w.cost(&c)
			if !slices.Equal(c.parts[0].codes, want) || c.bits != wantBits {
				t.Fatalf("codes %04x for %d bits, want %04x for %d", c.parts[0].codes, c.bits, want, wantBits)
			}
			w.release(c)
		}
		if over == 0 {
			t.Error("no block had too many quotients")
		}
	})
}

// residualsToChoose are those of a block, with a few that are larger than the others.
func residualsToChoose(rng *rand.Rand) (z [64]int) {
	least, spread, rare := rng.IntN(4), rng.IntN(9), rng.IntN(9)
	for i := range z {
		z[i] = min(least+rng.IntN(1<<spread), 255)
		if rng.IntN(20) == 0 {
			z[i] = rng.IntN(1 << rare)
		}
	}
	return z
}

// slowChoice is chooseCode by definition. It also counts the Rice codes that would be
// chosen if samples with quotients were not too many.
func slowChoice(z [64]int, rice bool) (code, cost, overruled int) {
	code = bits.Len(uint(slices.Max(z[:])))
	cost = 64 * code
	for k := 6; k >= 0 && rice; k-- {
		n, quotients := 0, 0
		for _, v := range z {
			q := v >> k
			if q < 8 {
				n += k + q + 1
			} else {
				n += k + 8 + 8 - k
			}
			quotients += min(q, 1)
		}
		switch {
		case n > cost:
		case quotients > 56:
			overruled++
		default:
			code, cost = codeRice+k, n
		}
	}
	return code, cost, overruled
}

// TestEncodeStaysWithin encodes with samples and working memory that nothing lies next
// to: assembly is not checked otherwise.
func TestEncodeStaysWithin(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	encodeForms.Each(t, func(t *testing.T) {
		for _, size := range [][2]int{{1, 1}, {15, 3}, {16, 64}, {33, 2}, {63, 32}, {64, 32}, {97, 33}, {128, 96}} {
			for channels := 1; channels <= 4; channels++ {
				for _, mode := range encodeModes {
					for _, atEnd := range []bool{false, true} {
						newEncodeCase(rng, size[0], size[1], channels, 8, 7).wantWithin(t, mode, atEnd)
					}
				}
			}
		}
	})
}

func (c *encodeCase) wantWithin(t *testing.T, mode Mode, atEnd bool) {
	t.Helper()
	src := c.target()
	src.Pix = codectest.GuardedUntilEnd(t, len(c.pix), atEnd)
	copy(src.Pix, c.pix)
	var plain, w Workspace
	want := Encode(nil, c.target(), c.width, c.height, c.channels, 8, mode, &plain)
	w.bytes.samples = codectest.GuardedUntilEnd(t, len(plain.bytes.samples), atEnd)
	if n := len(plain.emitter.memory); n > 0 {
		w.emitter.memory = codectest.GuardedUntilEnd(t, n, atEnd)
	}
	w.geometry, w.pitch = plain.geometry, plain.pitch
	for _, p := range plain.idle {
		w.idle = append(w.idle, &coded{codectest.GuardedUntilEnd(t, len(p.lanes), atEnd), make([]uint16, len(p.codes))})
	}
	got := Encode(nil, src, c.width, c.height, c.channels, 8, mode, &w)
	wantEqualPatches(t, c.String(), got, want)
	if len(w.idle) != len(plain.idle) {
		t.Errorf("%d channels in use, guarded %d", len(w.idle), len(plain.idle))
	}
}

// FuzzEncode wants the same patch from all forms, and the samples back.
func FuzzEncode(f *testing.F) {
	f.Add([]byte("\x00\xff\x80"), uint8(3), uint8(5), uint8(2), uint8(2))
	f.Add([]byte("some text that repeats"), uint8(70), uint8(40), uint8(3), uint8(1))
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 0, 0, 200, 1, 1, 1, 1}, uint8(33), uint8(66), uint8(0), uint8(4))
	f.Fuzz(func(t *testing.T, data []byte, width, height, channels, mode uint8) {
		c := &encodeCase{1 + int(width)%140, 1 + int(height)%70, 1 + int(channels)%4, 8 << (mode & 1), nil}
		c.pix = make([]byte, c.width*c.height*c.channels*c.depth/8)
		// What is left over repeats, changed a little.
		for i := range c.pix {
			if i < len(data) {
				c.pix[i] = data[i]
			} else if len(data) > 0 {
				c.pix[i] = c.pix[i-len(data)] + byte(i/len(data)%3)
			}
		}
		c.wantRoundTrip(t, c.wantSame(t, c.target(), encodeModes[mode>>1%2], new(Workspace)))
	})
}

// encodeModes are all.
var encodeModes = []Mode{Dense, Fast}

func (m Mode) String() string { return [...]string{"dense", "fast"}[m] }

// encodeCase is a patch to encode; its samples are interleaved.
type encodeCase struct {
	width, height, channels, depth int
	pix                            []byte
}

func (c *encodeCase) String() string {
	return fmt.Sprintf("%d×%d×%d of %d bits", c.width, c.height, c.channels, c.depth)
}

func (c *encodeCase) target() transcode.Target {
	return transcode.Interleaved(c.pix, c.width, c.channels, c.depth/8)
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
	if err := DecodeRows(got.target(), src, len(patch), c.width, c.height, c.height, c.channels, c.depth, &s); err != nil {
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
func (c *encodeCase) wantSame(t testing.TB, src transcode.Target, mode Mode, w *Workspace) (patch []byte) {
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
