package l3gpu

import (
	"fmt"
	"testing"

	"github.com/pipefs/pipefs/internal/pictures"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/l3"
)

// encoded is a picture as a file.
func encoded(t testing.TB, px *transcode.Pixels, o l3.Options) []byte {
	t.Helper()
	b, err := l3.Encode(px, o)
	testenv.Must(t, err)
	return b
}

// opened is a picture, ready to be decoded.
func opened(t testing.TB, px *transcode.Pixels, o l3.Options) *l3.Samples {
	t.Helper()
	s, err := l3.Open(encoded(t, px, o), transcode.Limits{})
	testenv.Must(t, err)
	return s
}

// sampleSize is the number of bytes that a sample takes.
func sampleSize(m transcode.Mode) int { return m.Depth() / 8 }

// interleaved is a new target for a picture.
func interleaved(h l3.Header) transcode.Target {
	n, size := h.Mode.Channels(), sampleSize(h.Mode)
	return transcode.Interleaved(make([]byte, h.Width*h.Height*n*size), h.Width, n, size)
}

var allWays = []l3.Options{{Mode: l3.Dense}, {Mode: l3.Fast}, {Mode: l3.V1}, {Mode: l3.Dense, Patch: 32}}

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
	for i, mode := range pictures.L3Modes {
		for j, o := range allWays {
			if !l3.Holds(mode, o.Version()) {
				continue
			}
			size := [][2]int{{1, 1}, {65, 40}, {33, 70}, {100, 31}, {64, 64}}[(i+j)%5]
			px := pictures.Pixels(mode, size[0], size[1])
			name := fmt.Sprintf("%v %d×%d %v/%d", mode, size[0], size[1], o.Mode, o.Patch)
			all = append(all, named{name, px, opened(t, px, o), encoded(t, px, o)})
		}
	}
	return all
}
