package ptxvm

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
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

// ops are single instructions: what they give for the numbers of their inputs. %0 is the result, %1 to %4 the inputs,
// 32 bits each; with an l after the digit they are of 64 bits, with an s of 16, with an f floats of 32, with a p predicates.
var ops = []struct {
	text string
	in   []uint64
	want uint64
}{
	{"add.s32 %0, %1, -1;", []uint64{0}, 0xffffffff},
	{"add.s16 %0s, %1s, -1;", []uint64{0}, 0xffff},
	{"neg.s16 %0s, %1s;", []uint64{1}, 0xffff},
	{"abs.s32 %0, %1;", []uint64{0x80000000}, 0x80000000},
	{"mul.hi.s32 %0, %1, %2;", []uint64{0xfffffffe, 0x80000000}, 1},
	{"mul.wide.s16 %0, %1s, %2s;", []uint64{0xffff, 2}, 0xfffffffe},
	{"mul.wide.u16 %0, %1s, %2s;", []uint64{0xffff, 2}, 0x1fffe},
	{"mad.wide.s32 %0l, %1, %2, %3l;", []uint64{0xffffffff, 3, 10}, 7},
	{"mad.hi.u32 %0, %1, %2, %3;", []uint64{0x80000000, 4, 5}, 7},
	{"div.s32 %0, %1, %2;", []uint64{0x80000000, 0xffffffff}, 0x80000000},
	{"div.s32 %0, %1, %2;", []uint64{0xfffffff9, 2}, 0xfffffffd},
	{"rem.s32 %0, %1, %2;", []uint64{0xfffffff9, 2}, 0xffffffff},
	{"rem.s64 %0l, %1l, %2l;", []uint64{^uint64(6), 4}, ^uint64(2)},
	{"shl.b32 %0, %1, %2;", []uint64{1, 32}, 0},
	{"shl.b16 %0s, %1s, %2;", []uint64{0xffff, 8}, 0xff00},
	{"shr.s32 %0, %1, %2;", []uint64{0x80000000, 40}, 0xffffffff},
	{"shr.u32 %0, %1, %2;", []uint64{0x80000000, 40}, 0},
	{"shr.s16 %0s, %1s, %2;", []uint64{0x8000, 4}, 0xf800},
	{"shf.l.clamp.b32 %0, %1, %2, %3;", []uint64{0x80000001, 0xff, 40}, 0x80000001},
	{"shf.l.wrap.b32 %0, %1, %2, %3;", []uint64{0x80000001, 0xff, 33}, 0x1ff},
	{"shf.r.wrap.b32 %0, %1, %2, %3;", []uint64{0x80000001, 0xff, 36}, 0xf8000000},
	{"bfi.b32 %0, %1, %2, %3, %4;", []uint64{0xff, 0x12345678, 8, 4}, 0x12345f78},
	{"bfi.b32 %0, %1, %2, %3, %4;", []uint64{0xff, 0x12345678, 28, 8}, 0xf2345678},
	{"bfi.b64 %0l, %1l, %2l, %3, %4;", []uint64{1, 0, 63, 64}, 1 << 63},
	{"bfind.u32 %0, %1;", []uint64{0}, 0xffffffff},
	{"prmt.b32 %0, %1, %2, 0xba40;", []uint64{0x11223344, 0x5566778a}, 0x00008a44},
	{"selp.b32 %0, 7, 9, %1p;", []uint64{1}, 7},
	{"{ .reg .pred p; setp.hs.u16 p, %1s, 5; selp.u32 %0, 1, 0, p; }", []uint64{5}, 1},
	{"cvt.u32.u8 %0, %1;", []uint64{0x1ff}, 0xff},
	{"cvt.s32.s8 %0, %1;", []uint64{0x80}, 0xffffff80},
	{"cvt.s64.s32 %0l, %1;", []uint64{0x80000000}, 0xffffffff80000000},
	{"cvt.rn.f16.f32 %0s, %1f;", []uint64{0x3f801000}, 0x3c00},
	{"cvt.rn.f16.f32 %0s, %1f;", []uint64{0x33800000}, 1},
	{"cvt.rn.f16.f32 %0s, %1f;", []uint64{0x477ff000}, 0x7c00},
	{"add.f32 %0f, %1f, %2f;", []uint64{0x3f800000, 0x33800000}, 0x3f800000},
	{"add.u16x2 %0, %1, %2;", []uint64{0xffff8001, 0x00027fff}, 0x00010000}, // no carry from one to the other
	{"add.s16x2 %0, %1, %2;", []uint64{0x7fffffff, 0x00010001}, 0x80000000},
	{"min.u16x2 %0, %1, %2;", []uint64{0x80000001, 0x7fff8000}, 0x7fff0001},
	{"max.u16x2 %0, %1, %2;", []uint64{0x80000001, 0x7fff8000}, 0x80008000},
	{"min.s16x2 %0, %1, %2;", []uint64{0x80000001, 0x7fff8000}, 0x80008000},
	{"max.s16x2 %0, %1, %2;", []uint64{0x80000001, 0x7fff8000}, 0x7fff0001},
	{"{ .reg .b16 a, b; cvt.u16.u32 a, %1; cvt.u16.u32 b, %2; mov.b32 %0, {b, a}; }", []uint64{0x12345678, 0xaaaabbbb}, 0x5678bbbb},
	{"bfind.shiftamt.u32 %0, %1;", []uint64{1}, 31},
	{"brev.b32 %0, %1;", []uint64{0x80000001}, 0x80000001},
	{"popc.b64 %0, %1l;", []uint64{1<<63 | 5}, 3},
	{"cvt.rn.f32.u32 %0f, %1;", []uint64{0x1000001}, 0x4b800000},
	{"mul.rn.f32 %0f, %1f, %2f;", []uint64{0x3f800001, 0x3f800001}, 0x3f800002},
	{"{ .reg .pred p; mov.pred p, -1; not.pred p, p; or.pred p, p, %1p; selp.b32 %0, 7, 9, p; }", []uint64{1}, 7},
}

// program makes an entry of an instruction: inputs are read from memory, 8 bytes each, and so goes the result.
func program(text string) string {
	kinds := map[string]string{"l": "b64", "s": "b16", "f": "f32", "p": "pred"}
	var decl, load, store string
	for i := range 5 {
		name := fmt.Sprintf("%%%d", i)
		at := strings.Index(text, name)
		if at < 0 {
			continue
		}
		suffix := text[at+2 : at+3]
		typ := kinds[suffix]
		if typ == "" {
			suffix, typ = "", "b32"
		}
		reg := fmt.Sprintf("%%x%d", i)
		text = strings.ReplaceAll(text, name+suffix, reg)
		decl += fmt.Sprintf("\t.reg .%s %s;\n", typ, reg)
		switch {
		case i == 0:
			store = fmt.Sprintf("\tst.global.%s [%%p], %s;\n", strings.Replace(typ, "f", "b", 1), reg)
		case typ == "pred":
			load += fmt.Sprintf("\tld.global.u32 %%t, [%%p+%d];\n\tsetp.ne.u32 %s, %%t, 0;\n", 8*i, reg)
		default:
			load += fmt.Sprintf("\tld.global.%s %s, [%%p+%d];\n", typ, reg, 8*i)
		}
	}
	return ".version 7.6\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 arg)\n{\n\t.reg .b64 %p;\n\t.reg .b32 %t;\n" +
		decl + "\tld.param.u64 %p, [arg];\n" + load + "\t" + text + "\n" + store + "\tret;\n}\n"
}

func TestOps(t *testing.T) {
	for _, op := range ops {
		r := newRig(t, program(op.text), Options{})
		in := make([]uint64, 5)
		copy(in[1:], op.in)
		p := r.give(in)
		r.run(1, 1, p)
		if got := take[uint64](r, p, 1)[0]; got != op.want {
			t.Errorf("%s of %#x is %#x, should be %#x", op.text, op.in, got, op.want)
		}
	}
}

// Where NVIDIA's assembler is installed, it takes all that we took here.
func TestAssembler(t *testing.T) {
	ptxas, err := exec.LookPath("ptxas")
	if err != nil {
		t.Skip("no ptxas")
	}
	var text strings.Builder
	for i, op := range ops {
		p := program(op.text)
		if i > 0 { // the module's head is there
			p = p[strings.Index(p, ".visible"):]
		}
		text.WriteString(strings.Replace(p, " k(", fmt.Sprintf(" k%d(", i), 1))
	}
	file := filepath.Join(t.TempDir(), "ops.ptx")
	testenv.Must(t, os.WriteFile(file, []byte(text.String()), 0o666))
	if out, err := exec.Command(ptxas, "-arch=sm_80", "-o", os.DevNull, file).CombinedOutput(); err != nil {
		t.Errorf("%s", out)
	}
}
