package ptxvm

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
)

// A rig runs kernels of one file of testdata. Its errors end the test.
type rig struct {
	t    testing.TB
	d    *Device
	p    *Program
	rng  *rand.Rand
	arch string
}

func newRig(t testing.TB, name string, opts Options) *rig {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name + ".ptx")
	if err != nil {
		t.Fatal(err)
	}
	return rigOf(t, string(text), opts)
}

func rigOf(t testing.TB, ptx string, opts Options) *rig {
	t.Helper()
	m, err := Parse(ptx)
	if err != nil {
		t.Fatal(err)
	}
	d := NewDevice(opts)
	p, err := d.Load(m)
	if err != nil {
		t.Fatal(err)
	}
	return &rig{t: t, d: d, p: p, rng: rand.New(rand.NewPCG(1, opts.Seed)), arch: m.Target}
}

// everyWay runs a test for both architectures in several orders.
func everyWay(t *testing.T, name string, test func(r *rig)) {
	for _, arch := range []string{"75", "90"} {
		for _, o := range []Options{{}, {Seed: 1}, {Seed: 2, Workers: 3}, {Seed: 3}} {
			t.Run(fmt.Sprintf("sm_%s,seed %d", arch, o.Seed), func(t *testing.T) {
				test(newRig(t, name+"."+arch, o))
			})
		}
	}
}

// alloc returns memory for n bytes.
func (r *rig) alloc(n int) uint64 {
	addr, err := r.d.Alloc(n, 16)
	if err != nil {
		r.t.Fatal(err)
	}
	return addr
}

// give puts values of a fixed size into new memory.
func (r *rig) give(values any) uint64 {
	var b bytes.Buffer
	if err := binary.Write(&b, binary.LittleEndian, values); err != nil {
		r.t.Fatal(err)
	}
	addr := r.alloc(b.Len())
	if err := r.d.Write(addr, b.Bytes()); err != nil {
		r.t.Fatal(err)
	}
	return addr
}

// take reads n values back.
func take[T any](r *rig, addr uint64, n int) []T {
	r.t.Helper()
	v := make([]T, n)
	b := make([]byte, binary.Size(v))
	if err := r.d.Read(addr, b); err != nil {
		r.t.Fatal(err)
	}
	if _, err := binary.Decode(b, binary.LittleEndian, v); err != nil {
		r.t.Fatal(err)
	}
	return v
}

func (r *rig) launch(entry string, grid, block [3]uint32, shared uint32, args ...any) (*Stats, error) {
	r.t.Helper()
	var list [][]byte
	for _, a := range args {
		var b bytes.Buffer
		if err := binary.Write(&b, binary.LittleEndian, a); err != nil {
			r.t.Fatal(err)
		}
		list = append(list, b.Bytes())
	}
	params, err := r.p.Pack(entry, list...)
	if err != nil {
		r.t.Fatal(err)
	}
	return r.p.Launch(entry, grid, block, shared, params)
}

// run launches blocks in a row, without dynamic shared memory, and expects no fault.
func (r *rig) run(entry string, blocks, threads uint32, args ...any) *Stats {
	r.t.Helper()
	s, err := r.launch(entry, [3]uint32{blocks, 1, 1}, [3]uint32{threads, 1, 1}, 0, args...)
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}

// words returns random numbers, small, large and in between.
func (r *rig) words(n int) []uint32 {
	v := make([]uint32, n)
	for i := range v {
		v[i] = r.rng.Uint32() >> r.rng.IntN(32)
	}
	return v
}

func same[T comparable](t testing.TB, what string, got, want []T) {
	t.Helper()
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("%s: value %d is %#v, should be %#v", what, i, got[i], want[i])
		}
	}
}
