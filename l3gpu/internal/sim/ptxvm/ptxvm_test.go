package ptxvm

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
)

// A rig runs kernels of one text. Its errors end the test.
type rig struct {
	t testing.TB
	d *Device
	p *Program
}

func newRig(t testing.TB, ptx string, opts Options) *rig {
	t.Helper()
	m, err := Parse(ptx)
	testenv.Must(t, err)
	d := NewDevice(opts)
	p, err := d.Load(m)
	testenv.Must(t, err)
	return &rig{t: t, d: d, p: p}
}

// give puts values of a fixed size into new memory.
func (r *rig) give(values any) uint64 {
	r.t.Helper()
	var b bytes.Buffer
	if err := binary.Write(&b, binary.LittleEndian, values); err != nil {
		r.t.Fatal(err)
	}
	addr, err := r.d.Alloc(b.Len(), 16)
	if err != nil {
		r.t.Fatal(err)
	}
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

// launch runs the entry k, whose parameter is an address.
func (r *rig) launch(blocks, threads uint32, arg uint64) (*Stats, error) {
	r.t.Helper()
	params, err := r.p.Pack("k", U64(arg))
	if err != nil {
		r.t.Fatal(err)
	}
	return r.p.Launch("k", blocks, threads, params)
}

// run launches it and expects no fault.
func (r *rig) run(blocks, threads uint32, arg uint64) *Stats {
	r.t.Helper()
	s, err := r.launch(blocks, threads, arg)
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}

func faultOf(err error) Kind {
	var f *Fault
	if errors.As(err, &f) {
		return f.Kind
	}
	return ""
}
