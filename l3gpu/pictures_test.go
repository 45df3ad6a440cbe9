package l3gpu

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/l3"
)

// picture makes one of a mode: smooth, with noise and edges.
func picture(mode transcode.Mode, width, height int) *transcode.Pixels {
	rng := rand.New(rand.NewPCG(uint64(width), uint64(height)<<8|uint64(mode)))
	px := &transcode.Pixels{Width: width, Height: height, Mode: mode}
	if mode.Depth() == 16 {
		px.Type = transcode.Uint16
	}
	for y := range height {
		for x := range width {
			for c := range mode.Channels() {
				v := 40*c + 3*x + 2*y + rng.IntN(9)
				if (x/17+y/13)%3 == 0 {
					v += 90
				}
				if rng.IntN(500) == 0 {
					v += rng.IntN(256)
				}
				if mode.Depth() == 16 {
					px.Pix = binary.LittleEndian.AppendUint16(px.Pix, uint16(v*211))
				} else {
					px.Pix = append(px.Pix, byte(v))
				}
			}
		}
	}
	return px
}

// encoded is a picture as a file.
func encoded(t testing.TB, px *transcode.Pixels, o l3.Options) []byte {
	t.Helper()
	b, err := l3.Encode(px, o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// opened is a picture, ready to be decoded.
func opened(t testing.TB, px *transcode.Pixels, o l3.Options) *l3.Samples {
	t.Helper()
	s, err := l3.Open(encoded(t, px, o), transcode.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// sampleSize is the number of bytes that a sample takes.
func sampleSize(m transcode.Mode) int { return m.Depth() / 8 }

// interleaved is a new target for a picture.
func interleaved(h l3.Header) l3.Target {
	n, size := h.Mode.Channels(), sampleSize(h.Mode)
	return l3.Interleaved(make([]byte, h.Width*h.Height*n*size), h.Width, n, size)
}

var (
	allModes = []transcode.Mode{
		transcode.ModeL, transcode.ModeLA, transcode.ModeRGB, transcode.ModeRGBA,
		transcode.ModeI16, transcode.ModeLA16, transcode.ModeRGB16, transcode.ModeRGBA16,
	}
	allWays = []l3.Options{{Mode: l3.Dense}, {Mode: l3.Fast}, {Mode: l3.V1}, {Mode: l3.Dense, Patch: 32}}
)

// named is a picture of the tests.
type named struct {
	name    string
	px      *transcode.Pixels
	samples *l3.Samples
	file    []byte
}

// allPictures has every mode in every way, in several sizes.
func allPictures(t testing.TB) []named {
	var all []named
	for i, mode := range allModes {
		for j, o := range allWays {
			if !l3.Holds(mode, o.Version()) {
				continue
			}
			size := [][2]int{{1, 1}, {65, 40}, {33, 70}, {100, 31}, {64, 64}}[(i+j)%5]
			px := picture(mode, size[0], size[1])
			name := fmt.Sprintf("%v %d×%d %v/%d", mode, size[0], size[1], o.Mode, o.Patch)
			all = append(all, named{name, px, opened(t, px, o), encoded(t, px, o)})
		}
	}
	return all
}
