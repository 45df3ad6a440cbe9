package v1

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/transcode"
)

// picture has its samples interleaved.
type picture struct {
	width, height, channels int
	pix                     []byte
}

func (p *picture) target() transcode.Target {
	return transcode.Interleaved(p.pix, p.width, p.channels, 1)
}

func (p *picture) String() string {
	return fmt.Sprintf("%d×%d×%d", p.width, p.height, p.channels)
}

// contents are ways to fill a row of samples of one channel: from what compresses to
// nothing to what no width of deltas but 8 fits.
var contents = []struct {
	name   string
	sample func(rng *rand.Rand, x, y int) byte
}{
	{"flat", func(*rand.Rand, int, int) byte { return 77 }},
	{"black", func(*rand.Rand, int, int) byte { return 0 }},
	{"white", func(*rand.Rand, int, int) byte { return 255 }},
	{"gradient", func(_ *rand.Rand, x, y int) byte { return byte(2*x + 3*y) }},
	{"steep", func(_ *rand.Rand, x, y int) byte { return byte(37*x - 91*y) }},
	{"checks", func(_ *rand.Rand, x, y int) byte { return byte(-((x ^ y) & 1)) }},
	{"noise", func(rng *rand.Rand, _, _ int) byte { return byte(rng.Uint32()) }},
	{"extremes", func(rng *rand.Rand, _, _ int) byte { return [...]byte{0, 1, 127, 128, 254, 255}[rng.IntN(6)] }},
	{"dark", func(rng *rand.Rand, _, _ int) byte { return byte(max(0, rng.IntN(6)-2)) }},
	{"soft", func(rng *rand.Rand, x, y int) byte { return byte(60 + x/3 + y/2 + rng.IntN(4)) }},
	// Every row has a width of its own.
	{"widths", func(rng *rand.Rand, _, y int) byte { return byte(rng.IntN(1 << (y % 9))) }},
}

func newPicture(rng *rand.Rand, width, height, channels, content int) *picture {
	p := &picture{width, height, channels, make([]byte, width*height*channels)}
	for y := range height {
		for x := range width {
			for c := range channels {
				p.pix[(y*width+x)*channels+c] = contents[content].sample(rng, x+5*c, y+c)
			}
		}
	}
	return p
}

func encode(t testing.TB, p *picture, patch int) []byte {
	t.Helper()
	b, err := Encode(p.target(), p.width, p.height, p.channels, patch)
	if err != nil {
		t.Fatalf("%v in patches of %d: %v", p, patch, err)
	}
	return b
}

// decode makes interleaved samples.
func decode(src []byte) (*picture, error) {
	h, err := Parse(src)
	if err != nil {
		return nil, err
	}
	// What Decode checks before it looks at its target.
	if _, err := open(h, src); err != nil {
		return nil, err
	}
	n := h.Width * h.Height * h.Channels
	p := &picture{h.Width, h.Height, h.Channels, make([]byte, n)}
	return p, Decode(p.target(), src)
}

// wantDecoded wants src to decode to p.
func wantDecoded(t testing.TB, src []byte, p *picture) {
	t.Helper()
	got, err := decode(src)
	if err != nil {
		t.Fatalf("%v: %v", p, err)
	}
	if got.width != p.width || got.height != p.height || got.channels != p.channels {
		t.Fatalf("%v, want %v", got, p)
	}
	if !bytes.Equal(got.pix, p.pix) {
		for i := range p.pix {
			if got.pix[i] != p.pix[i] {
				t.Fatalf("%v: sample %d is %d, want %d", p, i, got.pix[i], p.pix[i])
			}
		}
	}
}

func read(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	testenv.Must(t, err)
	return b
}

// readPPM reads a P6 file without comments.
func readPPM(t testing.TB, path string) *picture {
	t.Helper()
	r := bytes.NewReader(read(t, path))
	p, most, white := &picture{channels: 3}, 0, byte(0)
	if _, err := fmt.Fscanf(r, "P6\n%d %d\n%d%c", &p.width, &p.height, &most, &white); err != nil || most != 255 {
		t.Fatalf("%s: %v, samples to %d", path, err, most)
	}
	p.pix = make([]byte, r.Len())
	_, _ = r.Read(p.pix)
	if len(p.pix) != 3*p.width*p.height {
		t.Fatalf("%s: %d bytes for %v", path, len(p.pix), p)
	}
	return p
}

func testRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }
