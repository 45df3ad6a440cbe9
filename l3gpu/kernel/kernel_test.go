package kernel

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/pipefs/pipefs/internal/pictures"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/l3gpu/internal/sim/ptxvm"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/l3"
)

// want is the memory of a target after the processor's decoder, and its error.
func want(it item) ([]byte, error) {
	s := it.samples
	channels, size := s.Mode.Channels(), s.Mode.Depth()/8
	n, base, row, pixel, channel := it.order.make(s.Width, s.Height, channels, int(it.output.size(s.Mode.Depth())))
	out := bytes.Repeat([]byte{poison}, n)
	if it.output == AsStored {
		return out, s.Decode(transcode.Target{Pix: out, Layout: transcode.Layout{Base: base, Row: row, Pixel: pixel, Channel: channel}})
	}
	pix := make([]byte, s.Width*s.Height*channels*size)
	if err := s.Decode(transcode.Interleaved(pix, s.Width, channels, size)); err != nil {
		return nil, err
	}
	for y := range s.Height {
		for x := range s.Width {
			for c := range channels {
				from := ((y*s.Width+x)*channels + c) * size
				v := int(pix[from])
				if size == 2 {
					v = int(binary.LittleEndian.Uint16(pix[from:]))
				}
				f, at := float32(float32(v)*it.scale[c])+it.bias[c], base+y*row+x*pixel+c*channel
				if it.output == Float32 {
					binary.LittleEndian.PutUint32(out[at:], math.Float32bits(f))
				} else {
					binary.LittleEndian.PutUint16(out[at:], half(f))
				}
			}
		}
	}
	return out, nil
}

// half rounds to the nearest half, to even if there are two.
func half(f float32) uint16 {
	sign := uint16(math.Float32bits(f) >> 16 & 0x8000)
	a := math.Abs(float64(f))
	exponent := max(math.Ilogb(a), -14)
	if a == 0 {
		return sign
	}
	// A multiple of the distance of halves around it.
	n := uint16(math.RoundToEven(a * math.Exp2(float64(10-exponent))))
	if exponent == -14 && n < 1024 {
		return sign | n
	}
	if v := (exponent+15)<<10 + int(n) - 1024; v < 31<<10 {
		return sign | uint16(v)
	}
	return sign | 31<<10
}

// few are the first n of some cases under the race detector, which has little to find
// here, and all of them otherwise.
func few[T any](cases []T, n int) []T {
	if testenv.Race {
		return cases[:min(n, len(cases))]
	}
	return cases
}

// check decodes a batch and wants the samples and errors of the processor's decoder.
func check(t testing.TB, items []item) {
	t.Helper()
	for build := range builds {
		results, _ := decode(t, build, items, 1+uint64(len(items)))
		for i, it := range items {
			s := it.samples
			name := fmt.Sprintf("%d: picture %d, %v %d×%d in patches of %d×%d, %s, output %d", builds[build].capability, i, s.Mode, s.Width, s.Height, s.PatchWidth, s.PatchHeight, it.order.name, it.output)
			expected, err := want(it)
			switch {
			case (err == nil) != (results[i].err == nil):
				t.Errorf("%s: %v, want %v", name, results[i].err, err)
			case err == nil && !bytes.Equal(results[i].memory, expected):
				for k := range expected {
					if expected[k] != results[i].memory[k] {
						t.Errorf("%s: byte %d is %#x, want %#x", name, k, results[i].memory[k], expected[k])
						break
					}
				}
			}
		}
	}
}

var contents = []struct {
	name string
	v    func(rng *rand.Rand, x, y int) int
}{
	{"flat", func(*rand.Rand, int, int) int { return 0x4d4d }},
	{"gradient", func(_ *rand.Rand, x, y int) int { return 200*x + 300*y }},
	{"noise", func(rng *rand.Rand, _, _ int) int { return rng.IntN(1 << 16) }},
	{"soft", func(rng *rand.Rand, x, y int) int { return 0x3000 + 80*x + 100*y + rng.IntN(0x600) }},
	{"dots", func(rng *rand.Rand, x, y int) int { // escapes
		if rng.IntN(20) == 0 {
			return rng.IntN(1 << 16)
		}
		return 0x7000 + rng.IntN(0x300)
	}},
	{"dark", func(rng *rand.Rand, _, _ int) int { return max(0, rng.IntN(0x600)-0x300) }},
}

func picture(rng *rand.Rand, mode transcode.Mode, width, height, content int) *transcode.Pixels {
	px := &transcode.Pixels{Width: width, Height: height, Mode: mode}
	wide := mode.Depth() == 16
	if wide {
		px.Type = transcode.Uint16
	}
	px.Pix = make([]byte, px.Len())
	n := mode.Channels()
	for i := range width * height * n {
		x, y, c := i/n%width, i/n/width, i%n
		v := contents[content].v(rng, x+3*c, y+c)
		if wide {
			binary.LittleEndian.PutUint16(px.Pix[2*i:], uint16(v))
		} else {
			px.Pix[i] = byte(v >> 8)
		}
	}
	return px
}

func encoded(t testing.TB, px *transcode.Pixels, o l3.Options) *l3.Samples {
	t.Helper()
	b, err := l3.Encode(px, o)
	testenv.Must(t, err)
	return opened(t, b)
}

func opened(t testing.TB, b []byte) *l3.Samples {
	t.Helper()
	s, err := l3.Open(b, transcode.Limits{})
	testenv.Must(t, err)
	return s
}

// TestPictures decodes pictures of all kinds in batches.
func TestPictures(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, mode := range pictures.L3Modes {
		for _, coding := range []l3.Mode{l3.Dense, l3.Fast, l3.V1} {
			if !l3.Holds(mode, l3.Options{Mode: coding}.Version()) {
				continue
			}
			t.Run(fmt.Sprint(mode, coding), func(t *testing.T) {
				var items []item
				for i, size := range few([][2]int{{65, 33}, {1, 1}, {2, 3}, {1, 70}, {70, 1}, {31, 65}, {64, 32}, {100, 40}}, 2) {
					content := (i + int(mode)) % len(contents)
					items = append(items, item{samples: encoded(t, picture(rng, mode, size[0], size[1], content), l3.Options{Mode: coding}), order: orders[i%len(orders)]})
				}
				check(t, items)
			})
		}
	}
}

// builds are the program for kinds of GPUs; all tests are for all of them.
var builds = []struct {
	capability int
	text       func() ([]byte, error)
	module     func() (*ptxvm.Module, error)
}{{75, Portable, parsed(Portable)}, {90, Hopper, parsed(Hopper)}}

func parsed(text func() ([]byte, error)) func() (*ptxvm.Module, error) {
	return sync.OnceValues(func() (*ptxvm.Module, error) {
		b, err := text()
		if err != nil {
			return nil, err
		}
		return ptxvm.Parse(string(b))
	})
}

// poison is what memory has before it is written to.
const poison = 0xa5

// order is a layout of samples, with a margin around them.
type order struct {
	name string
	make func(width, height, channels, size int) (length int, base int, row, pixel, channel int)
}

var orders = []order{
	{"HWC", func(w, h, c, s int) (int, int, int, int, int) { return w * h * c * s, 0, w * c * s, c * s, s }},
	{"CHW", func(w, h, c, s int) (int, int, int, int, int) { return w * h * c * s, 0, w * s, s, w * h * s }},
	{"upwards", func(w, h, c, s int) (int, int, int, int, int) {
		stride := (w*c*s + 3) &^ 3
		return stride * h, stride*(h-1) + (c-1)*s, -stride, c * s, -s
	}},
	{"apart", func(w, h, c, s int) (int, int, int, int, int) { // with five channels to a pixel, in wider rows
		return (w*5 + 3) * h * s, 0, (w*5 + 3) * s, 5 * s, s
	}},
	{"odd", func(w, h, c, s int) (int, int, int, int, int) { return w*h*c*s + 3*s, 3 * s, w * c * s, c * s, s }},
}

// item is a file to be decoded, and where to.
type item struct {
	samples *l3.Samples
	order   order
	output  Output
	scale   [4]float32
	bias    [4]float32
}

// result is the memory of a target, and the error of the kernel.
type result struct {
	memory []byte
	err    error
}

// decode runs the kernels of a build for a batch, and returns what they did. Seed 0 is the
// order in which they cost least.
func decode(t testing.TB, build int, items []item, seed uint64) ([]result, map[string]*ptxvm.Stats) {
	t.Helper()
	m, err := builds[build].module()
	testenv.Must(t, err)
	must := func(err error) {
		t.Helper()
		testenv.Must(t, err)
	}
	// Blocks, warps and parted lanes in any order, and only what CUDA's manual promises.
	d := ptxvm.NewDevice(ptxvm.Options{Workers: 2, Seed: seed, OnlySyncwarp: true})
	alloc := func(b []byte) uint64 {
		t.Helper()
		at, err := d.Alloc(max(len(b), 1), Alignment)
		must(err)
		must(d.Write(at, b))
		return at
	}
	pictures, lengths := make([]Picture, len(items)), make([]int, len(items))
	for i, it := range items {
		s := it.samples
		n, base, row, pixel, channel := it.order.make(s.Width, s.Height, s.Mode.Channels(), int(it.output.size(s.Mode.Depth())))
		lengths[i] = n
		at := alloc(bytes.Repeat([]byte{poison}, n))
		pictures[i] = Picture{s, alloc(append(bytes.Clone(s.Source()), make([]byte, Padding)...)), Target{
			at, at + uint64(n), at + uint64(base), int64(row), int64(pixel), int64(channel), it.output, it.scale, it.bias,
		}}
	}
	p := New(pictures)
	scratch, err := d.Alloc(int(max(p.Scratch, 1)), 16)
	must(err)
	records, patches := p.Records(scratch)
	recordsAt, patchesAt := alloc(records), alloc(patches)
	status := alloc(bytes.Repeat([]byte{0xff}, StatusLen*len(items)))
	program, err := d.Load(m)
	must(err)
	stats := map[string]*ptxvm.Stats{}
	for _, l := range p.Launches {
		params, err := program.Pack(l.Entry, ptxvm.U64(recordsAt), ptxvm.U64(patchesAt+uint64(l.First*PatchLen)), ptxvm.U32(uint32(l.Count)), ptxvm.U64(status))
		must(err)
		s, err := program.Launch(l.Entry, uint32(l.Blocks), Threads, params)
		must(err)
		stats[l.Entry] = s
	}
	results, words := make([]result, len(items)), make([]byte, StatusLen*len(items))
	must(d.Read(status, words))
	for i := range items {
		results[i].memory = make([]byte, lengths[i])
		if lengths[i] > 0 {
			must(d.Read(pictures[i].Target.Low, results[i].memory))
		}
		results[i].err = p.Err(i, binary.LittleEndian.Uint32(words[4*i:]))
	}
	return results, stats
}
