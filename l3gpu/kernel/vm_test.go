package kernel

import (
	"bytes"
	"encoding/binary"
	"sync"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/l3gpu/internal/sim/ptxvm"
	"github.com/pipefs/pipefs/transcode/l3"
)

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

// order is a layout of samples, with room around them.
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
	{"apart", func(w, h, c, s int) (int, int, int, int, int) { // with a pixel's room for five channels, in wider rows
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
