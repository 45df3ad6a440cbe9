package resample

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/internal/codectest"
	"github.com/pipefs/pipefs/transcode/internal/pillow"
)

var modes = []transcode.Mode{transcode.ModeL, transcode.ModeLA, transcode.ModeRGB, transcode.ModeRGBA}

// fillings are pictures by their bytes.
var fillings = map[string]func(rng *rand.Rand, i int) byte{
	"noise":    func(rng *rand.Rand, _ int) byte { return byte(rng.Uint32()) },
	"extremes": func(rng *rand.Rand, _ int) byte { return -byte(rng.Uint32() & 1) },
	"black":    func(*rand.Rand, int) byte { return 0 },
	"white":    func(*rand.Rand, int) byte { return 255 },
	"chequers": func(_ *rand.Rand, i int) byte { return -byte(i & 1) },
}

// call is what Scale is asked for; the picture is between others in memory.
type call struct {
	mode          transcode.Mode
	filter        Filter
	mirror        bool
	width, height int // of the box
	out           [2]int
	before, after int // bytes of other pixels on the left and on the right of a row
}

func (c call) String() string {
	return fmt.Sprintf("%v %dx%d to %dx%d, filter %d, mirror %v, %d and %d bytes around", c.mode, c.width, c.height, c.out[0], c.out[1], c.filter, c.mirror, c.before, c.after)
}

// source is how many bytes of memory a call reads.
func (c call) source() (stride, size int) {
	row := c.width * c.mode.Channels()
	stride = c.before + row + c.after
	return stride, (c.height-1)*stride + c.before + row
}

// run scales in all forms, from memory with nothing behind it, into rows that lie apart.
func (c call) run(t *testing.T, memory []byte) {
	t.Helper()
	stride, _ := c.source()
	row := c.out[0] * c.mode.Channels()
	const apart = 7
	var want []byte
	for _, form := range forms {
		form.Use()
		dst := bytes.Repeat([]byte{0xa5}, c.out[1]*(row+apart)+apart)
		src := Image{Pix: memory[c.before:], Stride: stride, Width: c.width, Height: c.height}
		to := Image{Pix: dst[apart:], Stride: row + apart, Width: c.out[0], Height: c.out[1]}
		testenv.Must(t, Scale(t.Context(), to, src, c.mode, c.filter, c.mirror))
		for i, v := range dst {
			if i%(row+apart) < apart && v != 0xa5 {
				t.Fatalf("%v, %s: byte %d beside the result was written", c, form.Name, i)
			}
		}
		if want == nil {
			want = dst
		} else if !bytes.Equal(dst, want) {
			t.Fatalf("%v: %s differs from %s", c, form.Name, forms[0].Name)
		}
	}
}

// TestForms compares all forms with each other.
func TestForms(t *testing.T) {
	sizes := []int{1, 2, 3, 4, 5, 7, 8, 11, 12, 16, 31, 33, 64, 100, 224, 257}
	if testing.Short() {
		sizes = sizes[:12]
	}
	rng := rand.New(rand.NewPCG(1, 2))
	pick := func() int { return sizes[rng.IntN(len(sizes))] }
	memory := codectest.GuardedUntilEnd(t, 4*300*260, true)
	for name, fill := range fillings {
		for i := range memory {
			memory[i] = fill(rng, i)
		}
		for range 600 {
			c := call{
				mode: modes[rng.IntN(len(modes))], filter: Filter(rng.IntN(2)), mirror: rng.IntN(2) == 0,
				width: pick(), height: pick(), out: [2]int{pick(), pick()}, before: rng.IntN(40), after: rng.IntN(40),
			}
			_, size := c.source()
			if size > len(memory) {
				continue
			}
			c.run(t, memory[len(memory)-size:])
		}
		t.Log(name)
	}
}

// TestManyTaps compares the forms where a sum has thousands of taps.
func TestManyTaps(t *testing.T) {
	testenv.Slow(t)
	rng := rand.New(rand.NewPCG(3, 4))
	for _, in := range []int{255, 256, 257, 1023, 1024, 2047, 2048, 4095, 4097, 8191, 8193, 20001} {
		for _, mode := range modes {
			for _, filter := range []Filter{Bilinear, Bicubic} {
				for _, fill := range fillings {
					for _, size := range [][2]int{{in, 2}, {16, in}} {
						c := call{mode: mode, filter: filter, width: size[0], height: size[1], out: [2]int{min(size[0], 12), min(size[1], 2)}}
						if size[0] == in {
							c.out = [2]int{1, 2}
						}
						_, n := c.source()
						memory := make([]byte, n)
						for i := range memory {
							memory[i] = fill(rng, i)
						}
						c.run(t, memory)
					}
				}
			}
		}
	}
}

// FuzzResample compares the forms for any sizes and bytes.
func FuzzResample(f *testing.F) {
	f.Add(uint8(2), uint8(1), uint16(40), uint16(30), uint16(22), uint16(17), []byte("\x00\xff\x80\x01"))
	f.Add(uint8(0), uint8(2), uint16(1), uint16(1), uint16(224), uint16(3), []byte{255})
	f.Add(uint8(3), uint8(3), uint16(500), uint16(3), uint16(1), uint16(200), []byte("a picture"))
	f.Fuzz(func(t *testing.T, mode, how uint8, width, height, outWidth, outHeight uint16, data []byte) {
		c := call{
			mode: modes[int(mode)%len(modes)], filter: Filter(how & 1), mirror: how&2 != 0,
			width: 1 + int(width)%2000, height: 1 + int(height)%2000, out: [2]int{1 + int(outWidth)%600, 1 + int(outHeight)%600},
			before: int(how >> 2 & 7), after: int(how >> 5),
		}
		_, size := c.source()
		if size > 1<<20 {
			return
		}
		// The data, and then numbers that depend on them.
		memory := make([]byte, size)
		n := copy(memory, data)
		seed := make([]byte, 8)
		copy(seed, data)
		rng := rand.NewPCG(binary.LittleEndian.Uint64(seed), uint64(len(data)))
		for i := n; i < size; i++ {
			memory[i] = byte(rng.Uint64())
		}
		c.run(t, memory)
	})
}

// TestRefuses wants errors, and nothing worse, for what cannot be scaled.
func TestRefuses(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	src := Of(pillow.Sample(transcode.ModeRGB, 40, 30))
	dst := Image{Pix: make([]byte, 3*20*20), Stride: 60, Width: 20, Height: 20}
	short, narrow, none := dst, dst, dst
	short.Pix = short.Pix[1:]
	narrow.Stride--
	none.Width = 0
	for name, err := range map[string]error{
		"16 bits":     Scale(t.Context(), dst, src, transcode.ModeI16, Bilinear, false),
		"a palette":   Scale(t.Context(), dst, src, transcode.ModeP, Bilinear, false),
		"a short dst": Scale(t.Context(), short, src, transcode.ModeRGB, Bilinear, false),
		"a narrow":    Scale(t.Context(), narrow, src, transcode.ModeRGB, Bilinear, false),
		"no width":    Scale(t.Context(), none, src, transcode.ModeRGB, Bilinear, false),
		"a short src": Scale(t.Context(), dst, src.Box(1, 0, 40, 30, 3), transcode.ModeRGB, Bilinear, false),
	} {
		if !errors.Is(err, transcode.ErrInternal) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := Scale(ctx, dst, src, transcode.ModeRGB, Bilinear, false); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller that went: %v", err)
	}
}

// TestNoAllocation wants memory to be used again, also by several at once.
func TestNoAllocation(t *testing.T) {
	src := Of(pillow.Sample(transcode.ModeRGB, 200, 150)).Box(10, 20, 150, 100, 3)
	scale := func(dst []byte) {
		to := Image{Pix: dst, Stride: 3 * 64, Width: 64, Height: 64}
		testenv.Must(t, Scale(t.Context(), to, src, transcode.ModeRGB, Bicubic, true))
	}
	want := make([]byte, 3*64*64)
	scale(want)
	// A mean, rounded down: the collector may empty the pool.
	if n := testing.AllocsPerRun(200, func() { scale(want) }); n > 0 && !testenv.Race {
		t.Errorf("%v allocations", n)
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			got := make([]byte, len(want))
			for range 50 {
				scale(got)
			}
			if string(got) != string(want) {
				t.Error("another result")
			}
		})
	}
	all.Wait()
}
