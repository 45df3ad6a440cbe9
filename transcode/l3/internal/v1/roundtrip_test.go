package v1

import (
	"bytes"
	"math/rand/v2"
	"testing"
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
