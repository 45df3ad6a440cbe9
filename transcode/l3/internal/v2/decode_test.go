package v2

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/internal/codectest"
)

// decodeCase is a patch that was encoded.
type decodeCase struct {
	*encodeCase
	patch []byte
}

func newDecodeCase(c *encodeCase, mode Mode) *decodeCase {
	var w Workspace
	return &decodeCase{c, Encode(nil, c.target(), c.width, c.height, c.channels, c.depth, mode, &w)}
}

// decodeAll decodes in all forms and wants the same of them. The samples are
// interleaved; they are nil after an error.
func (c *decodeCase) decodeAll(t testing.TB, s *Scratch) ([]byte, error) {
	t.Helper()
	return c.decodeFrom(t, append(bytes.Clone(c.patch), make([]byte, TailLen)...), s)
}

// decodeFrom is decodeAll from memory that has the patch.
func (c *decodeCase) decodeFrom(t testing.TB, src []byte, s *Scratch) ([]byte, error) {
	t.Helper()
	var want []byte
	var wantErr error
	for i, form := range decodeForms {
		form.Use()
		pix := make([]byte, c.width*c.height*c.channels*c.depth/8)
		dst := transcode.Interleaved(pix, c.width, c.channels, c.depth/8)
		err := DecodeRows(dst, src, len(c.patch), c.width, c.height, c.height, c.channels, c.depth, s)
		if err != nil {
			if !errors.Is(err, transcode.ErrBad) && !errors.Is(err, transcode.ErrTruncated) {
				t.Fatalf("%v, %s: %v", c, form.Name, err)
			}
			pix = nil
		}
		if i == 0 {
			want, wantErr = pix, err
			continue
		}
		if (err == nil) != (wantErr == nil) {
			t.Fatalf("%v: %s returns %v, %s %v", c, form.Name, err, decodeForms[0].Name, wantErr)
		}
		if !bytes.Equal(pix, want) {
			t.Fatalf("%v: %s returns other samples than %s", c, form.Name, decodeForms[0].Name)
		}
	}
	return want, wantErr
}

var decodeSizes = [][2]int{
	{1, 1}, {2, 3}, {1, 70}, {31, 32}, {32, 33}, {33, 31}, {48, 100}, {63, 65}, {64, 64}, {65, 63}, {80, 200}, {127, 96}, {300, 5}, {256, 256}, {300, 300},
}

// eachDecodeCase calls f with patches of all kinds.
func eachDecodeCase(t *testing.T, sizes [][2]int, f func(t *testing.T, c *decodeCase)) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, size := range sizes {
		for channels := 1; channels <= 4; channels++ {
			for _, depth := range []int{8, 16} {
				for content := range encodeContents {
					// Of the large ones a quarter: they take long.
					if size[0]*size[1] > 10000 && rng.IntN(4) > 0 {
						continue
					}
					c := newEncodeCase(rng, size[0], size[1], channels, depth, content)
					for _, mode := range encodeModes {
						f(t, newDecodeCase(c, mode))
					}
				}
			}
		}
	}
}

// TestDecode wants the samples that were encoded, and of all forms the same for all
// predictors and colour transforms, whether or not an encoder would have chosen them.
func TestDecode(t *testing.T) {
	var s Scratch
	rng := rand.New(rand.NewPCG(5, 6))
	sizes := decodeSizes
	if testing.Short() {
		sizes = sizes[:10]
	}
	eachDecodeCase(t, sizes, func(t *testing.T, c *decodeCase) {
		got, err := c.decodeAll(t, &s)
		if err != nil || !bytes.Equal(got, c.pix) {
			t.Fatalf("%v: other samples, or %v", c, err)
		}
		// Predictors and colours other than the ones chosen: other samples, but the same of
		// all forms.
		for range 2 {
			c.patch[1] = 0
			for i := range c.channels {
				c.patch[1] |= byte(rng.IntN(preds) << (2 * i))
			}
			if c.channels >= 3 {
				c.patch[0] = byte(rng.IntN(colours))
			}
			if _, err := c.decodeAll(t, &s); err != nil {
				t.Fatalf("%v, colour %d, predictors %#x: %v", c, c.patch[0], c.patch[1], err)
			}
		}
	})
}

// decodeLayouts are ways to place a patch in a buffer of so many bytes.
func decodeLayouts(c *decodeCase) map[string]transcode.Layout {
	size := c.depth / 8
	row := c.width * c.channels * size
	all := map[string]transcode.Layout{
		"interleaved": {Row: row, Pixel: c.channels * size, Channel: size},
		"planar":      {Row: c.width * size, Pixel: size, Channel: c.width * c.height * size},
		"padded":      {Row: row + 3, Pixel: c.channels * size, Channel: size},
		"gaps":        {Row: (row + 2) * 2, Pixel: c.channels*size + 1, Channel: size},
		"reversed":    {Base: (c.height-1)*row + (c.channels-1)*size, Row: -row, Pixel: c.channels * size, Channel: -size},
		"mirrored":    {Base: row - c.channels*size, Row: row, Pixel: -c.channels * size, Channel: size},
		"columns":     {Row: size, Pixel: c.height * size, Channel: c.height * c.width * size},
		"planes up":   {Base: (c.channels - 1) * c.width * c.height * size, Row: c.width * size, Pixel: size, Channel: -c.width * c.height * size},
		"planes rows": {Row: row, Pixel: size, Channel: c.width * size},
	}
	if c.channels == 3 && c.depth == 8 {
		all["bmp"] = transcode.Layout{Base: (c.height-1)*((row+3)&^3) + 2, Row: -((row + 3) &^ 3), Pixel: 3, Channel: -1}
	}
	return all
}

// TestDecodeLayouts wants each sample where the layout has it, and nothing else to
// change, from sources and to targets that end where memory does.
func TestDecodeLayouts(t *testing.T) {
	var s Scratch
	sizes := [][2]int{{1, 1}, {7, 9}, {32, 33}, {33, 70}, {96, 40}, {100, 100}}
	rng := rand.New(rand.NewPCG(7, 8))
	for _, size := range sizes {
		for channels := 1; channels <= 4; channels++ {
			for _, depth := range []int{8, 16} {
				for _, mode := range encodeModes {
					e := newEncodeCase(rng, size[0], size[1], channels, depth, 4+rng.IntN(3))
					c := newDecodeCase(e, mode)
					for name, dst := range decodeLayouts(c) {
						wantPlaced(t, c, name, dst, &s)
					}
				}
			}
		}
	}
}

func wantPlaced(t *testing.T, c *decodeCase, name string, layout transcode.Layout, s *Scratch) {
	t.Helper()
	dst := transcode.Target{Layout: layout}
	size := c.depth / 8
	end := 0
	for _, x := range []int{0, c.width - 1} {
		for _, y := range []int{0, c.height - 1} {
			for _, ch := range []int{0, c.channels - 1} {
				end = max(end, dst.At(x, y, ch)+size)
			}
		}
	}
	want := bytes.Repeat([]byte{0xa5}, end)
	for y := range c.height {
		for x := range c.width {
			for ch := range c.channels {
				from := ((y*c.width+x)*c.channels + ch) * size
				copy(want[dst.At(x, y, ch):], c.pix[from:from+size])
			}
		}
	}
	for _, atEnd := range []bool{false, true} {
		src := codectest.GuardedUntilEnd(t, len(c.patch)+TailLen, atEnd)
		copy(src, c.patch)
		dst.Pix = codectest.GuardedUntilEnd(t, end, atEnd)
		for _, form := range decodeForms {
			form.Use()
			for i := range dst.Pix {
				dst.Pix[i] = 0xa5
			}
			if err := DecodeRows(dst, src, len(c.patch), c.width, c.height, c.height, c.channels, c.depth, s); err != nil {
				t.Fatalf("%v, %s, %s: %v", c, name, form.Name, err)
			}
			if !bytes.Equal(dst.Pix, want) {
				t.Fatalf("%v, %s, %s: not what is wanted", c, name, form.Name)
			}
		}
	}
}

// TestDecodeHeaders wants what is wrong with a patch to be told.
func TestDecodeHeaders(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	set := func(at int, v byte) func([]byte) []byte {
		return func(p []byte) []byte { p[at] = v; return p }
	}
	cut := func(n int) func([]byte) []byte { return func(p []byte) []byte { return p[:n] } }
	for _, test := range []struct {
		name     string
		channels int
		damage   func(patch []byte) []byte
		want     error
	}{
		{"nothing", 3, func(p []byte) []byte { return p }, nil},
		{"colour", 3, set(0, 3), transcode.ErrBad},
		{"colour of grey", 1, set(0, 1), transcode.ErrBad},
		{"predictor", 3, set(1, 3<<2), transcode.ErrBad},
		{"predictor of no channel", 3, set(1, 1<<6), transcode.ErrBad},
		{"flags", 3, set(2, 3), transcode.ErrBad},
		{"reserved", 3, set(3, 1), transcode.ErrBad},
		{"no streams", 3, set(2, 0), transcode.ErrBad},
		{"longer stream", 3, func(p []byte) []byte { p[4]++; return p }, transcode.ErrTruncated},
		{"shorter stream", 3, func(p []byte) []byte { p[4]--; return p }, transcode.ErrBad},
		{"other streams", 3, func(p []byte) []byte { p[4]--; p[8]++; return p }, transcode.ErrBad},
		{"huge stream", 3, set(7, 0xff), transcode.ErrTruncated},
		{"no code", 3, cut(36), transcode.ErrTruncated},
		{"no header", 3, cut(3), transcode.ErrTruncated},
		{"nothing left", 3, cut(0), transcode.ErrTruncated},
		{"more", 3, func(p []byte) []byte { return append(p, 0) }, transcode.ErrBad},
		{"less", 3, func(p []byte) []byte { return p[:len(p)-1] }, transcode.ErrTruncated},
	} {
		c := newDecodeCase(newEncodeCase(rng, 70, 50, test.channels, 8, 5), Dense)
		c.patch = test.damage(c.patch)
		var s Scratch
		if _, err := c.decodeAll(t, &s); !errors.Is(err, test.want) {
			t.Errorf("%s: %v, want %v", test.name, err, test.want)
		}
	}
}

// TestDecodeCaller wants errors for what a caller must not ask for.
func TestDecodeCaller(t *testing.T) {
	pix, src := make([]byte, 64), make([]byte, 1000)
	for _, a := range [][5]int{
		{993, 4, 4, 3, 8}, {-1, 4, 4, 3, 8}, {992, 4, 4, 0, 8}, {992, 4, 4, 5, 8}, {992, 4, 4, 3, 12}, {992, 0, 4, 3, 8}, {992, 4, -1, 3, 8}, {992, 4, 6, 3, 8},
		{992, math.MaxInt, math.MaxInt, 3, 8},
	} {
		var s Scratch
		dst := transcode.Target{Pix: pix, Layout: transcode.Layout{Row: 12, Pixel: 3, Channel: 1}}
		if err := DecodeRows(dst, src, a[0], a[1], a[2], a[2], a[3], a[4], &s); !errors.Is(err, transcode.ErrInternal) {
			t.Errorf("%v: %v", a, err)
		}
	}
}

// TestDecodeWide wants patches refused that would take much more memory than they have.
func TestDecodeWide(t *testing.T) {
	var s Scratch
	src := make([]byte, 1<<20)
	dst := transcode.Interleaved(make([]byte, maxWidth+1), maxWidth+1, 1, 1)
	if err := DecodeRows(dst, src, len(src)-TailLen, maxWidth+1, 1, 1, 1, 8, &s); !errors.Is(err, transcode.ErrUnsupported) {
		t.Error(err)
	}
	c := newDecodeCase(newEncodeCase(rand.New(rand.NewPCG(15, 16)), maxWidth, 2, 1, 8, 4), Dense)
	if pix, err := c.decodeAll(t, &s); err != nil || !bytes.Equal(pix, c.pix) {
		t.Error("the widest patch:", err)
	}
}

// TestDecodeDamaged damages patches: all forms have to agree on them, and to stay within
// memory.
func TestDecodeDamaged(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 12))
	rounds := 5000
	if testing.Short() {
		rounds = 500
	}
	var s Scratch
	accepted := 0
	for range rounds {
		depth := 8 + 8*rng.IntN(2)
		e := newEncodeCase(rng, 1+rng.IntN(100), 1+rng.IntN(80), 1+rng.IntN(4), depth, rng.IntN(len(encodeContents)))
		c := newDecodeCase(e, encodeModes[rng.IntN(4)/3])
		for range 1 + rng.IntN(3) {
			i := rng.IntN(len(c.patch))
			// Half of them in the codes, which are at the beginning.
			if rng.IntN(2) == 0 {
				i = rng.IntN(min(len(c.patch), 400))
			}
			c.patch[i] ^= 1 << rng.IntN(8)
		}
		src := codectest.GuardedUntilEnd(t, len(c.patch)+TailLen, true)
		copy(src, c.patch)
		if _, err := c.decodeFrom(t, src, &s); err == nil {
			accepted++
		}
	}
	t.Logf("%d of %d damaged patches are valid", accepted, rounds)
}

func FuzzDecode(f *testing.F) {
	rng := rand.New(rand.NewPCG(13, 14))
	for i := range 40 {
		e := newEncodeCase(rng, 1+rng.IntN(40), 1+rng.IntN(70), 1+i%4, 8+i/4%2*8, rng.IntN(len(encodeContents)))
		c := newDecodeCase(e, encodeModes[i%2])
		f.Add(c.patch, uint16(c.width), uint16(c.height), uint8(c.channels), c.depth == 16)
	}
	var s Scratch
	f.Fuzz(func(t *testing.T, patch []byte, width, height uint16, channels uint8, wide bool) {
		e := &encodeCase{1 + int(width)%300, 1 + int(height)%300, 1 + int(channels)%4, 8, nil}
		if wide {
			e.depth = 16
		}
		c := &decodeCase{e, patch}
		pix, err := c.decodeAll(t, &s)
		if err == nil && len(pix) == 0 {
			t.Fatal("no samples")
		}
	})
}

// ExampleDecode is how a picture is decoded: patch by patch.
func ExampleDecode() {
	pix := []byte{10, 11, 12, 20, 22, 24}
	target := transcode.Interleaved(pix, 3, 1, 1)
	patch := Encode(nil, target, 3, 2, 1, 8, Dense, new(Workspace))
	var s Scratch
	out := make([]byte, 6)
	src := append(patch, make([]byte, TailLen)...)
	err := DecodeRows(transcode.Interleaved(out, 3, 1, 1), src, len(patch), 3, 2, 2, 1, 8, &s)
	fmt.Println(out, err)
	// Output: [10 11 12 20 22 24] <nil>
}

// TestUnpack unpacks units of random codes from random bits, which no encoder would
// write, in all forms. They have to agree on what is damaged, and on all else.
func TestUnpack(t *testing.T) {
	rng := rand.New(rand.NewPCG(17, 18))
	const size = 1 << 14
	src := make([]byte, size+overReadTest)
	good := 0
	for round := range 6000 {
		// Few bits set in streams make few escapes; many make all kinds of damage. Raw parts
		// with more than 7 of 8 bits set have too many quotients.
		streamBits, rawBits := rng.IntN(8), rng.IntN(4)
		for i := 0; i < len(src); i += 8 {
			v := rng.Uint64()
			for range streamBits {
				v &= rng.Uint64()
			}
			for range rawBits {
				if i < size/2 {
					v |= rng.Uint64()
				}
			}
			binary.LittleEndian.PutUint64(src[i:], v)
		}
		codes := make([]byte, 2*(1+rng.IntN(maxWords)))
		for i := range codes {
			codes[i] = byte(rng.Uint32())
			if round%4 == 0 {
				// Where there are many raw bits, quotients can be too large.
				codes[i] |= 0xee
			}
		}
		var start Scratch
		start.rice = true
		for i := range start.pos {
			start.pos[i] = uint64(4*size + rng.IntN(2*size))
			start.end[i] = 8 * size
		}
		if rng.IntN(2) == 0 {
			start.end[streams-1] = start.pos[streams-1] + uint64(rng.IntN(100))
		}
		start.raw = rng.IntN(size / 4)
		var want Scratch
		for i, form := range decodeForms {
			form.Use()
			s := start
			s.z = make([]byte, maxWords*columnsLen)
			ok := s.unpack(src, codes)
			switch {
			case i == 0:
				want = s
				if !ok {
					want.z = nil
				} else {
					good++
				}
			case ok != (want.z != nil):
				t.Fatalf("round %d: %s returns %v, %s does not", round, form.Name, ok, decodeForms[0].Name)
			case ok && (s.pos != want.pos || s.raw != want.raw || !bytes.Equal(s.z, want.z)):
				t.Fatalf("round %d: %s and %s differ", round, form.Name, decodeForms[0].Name)
			}
		}
	}
	if good < 500 || good > 5500 {
		t.Errorf("%d of 6000 units are not damaged: not enough of both kinds", good)
	}
}

// overReadTest is more than any form reads beyond where streams end.
const overReadTest = 1024

// TestSumCodes compares with the definition.
func TestSumCodes(t *testing.T) {
	rng := rand.New(rand.NewPCG(19, 20))
	for range 2000 {
		codes := make([]byte, rng.IntN(40))
		units, rice := 0, false
		limit := 1 + rng.Uint32N(16)
		for i := range codes {
			low, high := rng.Uint32N(limit), rng.Uint32N(limit)
			codes[i] = byte(low | high<<4)
			units += int(rawLen[low]) + int(rawLen[high])
			rice = rice || low >= codeRice || high >= codeRice
		}
		if gotUnits, gotRice := sumCodes(codes); gotUnits != units || gotRice != rice {
			t.Fatalf("%x: %d, %v, want %d, %v", codes, gotUnits, gotRice, units, rice)
		}
	}
}
