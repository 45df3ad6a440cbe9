package ptxvm

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// ops are single instructions: what they give for the numbers of their inputs. %0 is the result, %1 to %4 the inputs,
// 32 bits each; with an l after the digit they are of 64 bits, with an s of 16, with an f floats of 32, with a p predicates.
var ops = []struct {
	text string
	in   []uint64
	want uint64
}{
	{"add.sat.s32 %0, %1, %2;", []uint64{0x7ffffff0, 0x100}, 0x7fffffff},
	{"sub.sat.s32 %0, %1, %2;", []uint64{0x80000000, 1}, 0x80000000},
	{"add.s32 %0, %1, -1;", []uint64{0}, 0xffffffff},
	{"add.s16 %0s, %1s, -1;", []uint64{0}, 0xffff},
	{"neg.s16 %0s, %1s;", []uint64{1}, 0xffff},
	{"abs.s32 %0, %1;", []uint64{0x80000000}, 0x80000000},
	{"sad.s32 %0, %1, %2, %3;", []uint64{0xffffffff, 2, 10}, 13},
	{"mul.hi.s32 %0, %1, %2;", []uint64{0xfffffffe, 0x80000000}, 1},
	{"mul.wide.s16 %0, %1s, %2s;", []uint64{0xffff, 2}, 0xfffffffe},
	{"mul.wide.u16 %0, %1s, %2s;", []uint64{0xffff, 2}, 0x1fffe},
	{"mad.wide.s32 %0l, %1, %2, %3l;", []uint64{0xffffffff, 3, 10}, 7},
	{"mad.hi.u32 %0, %1, %2, %3;", []uint64{0x80000000, 4, 5}, 7},
	{"mul24.lo.s32 %0, %1, %2;", []uint64{0xffffff, 5}, 0xfffffffb},
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
	{"bfe.u32 %0, %1, %2, %3;", []uint64{0x12345678, 8, 12}, 0x456},
	{"bfe.s32 %0, %1, %2, %3;", []uint64{0x00000800, 8, 4}, 0xfffffff8},
	{"bfe.s32 %0, %1, %2, %3;", []uint64{0x80000000, 28, 8}, 0xfffffff8},
	{"bfe.s32 %0, %1, %2, %3;", []uint64{0x80000000, 40, 8}, 0xffffffff},
	{"bfe.u32 %0, %1, %2, %3;", []uint64{0xffffffff, 0, 0}, 0},
	{"bfe.u64 %0l, %1l, %2, %3;", []uint64{0x123456789abcdef0, 60, 64}, 1},
	{"bfe.s64 %0l, %1l, %2, %3;", []uint64{0x80, 4, 4}, ^uint64(7)},
	{"bfi.b32 %0, %1, %2, %3, %4;", []uint64{0xff, 0x12345678, 8, 4}, 0x12345f78},
	{"bfi.b32 %0, %1, %2, %3, %4;", []uint64{0xff, 0x12345678, 28, 8}, 0xf2345678},
	{"bfi.b64 %0l, %1l, %2l, %3, %4;", []uint64{1, 0, 63, 64}, 1 << 63},
	{"bfind.s32 %0, %1;", []uint64{0xfffffff0}, 3},
	{"bfind.u32 %0, %1;", []uint64{0}, 0xffffffff},
	{"bfind.shiftamt.u64 %0, %1l;", []uint64{1}, 63},
	{"prmt.b32 %0, %1, %2, 0xba40;", []uint64{0x11223344, 0x5566778a}, 0x00008a44},
	{"prmt.b32.f4e %0, %1, %2, %3;", []uint64{0x33221100, 0x77665544, 1}, 0x44332211},
	{"prmt.b32.b4e %0, %1, %2, %3;", []uint64{0x33221100, 0x77665544, 1}, 0x66770011},
	{"prmt.b32.rc8 %0, %1, %2, %3;", []uint64{0x33221100, 0x77665544, 2}, 0x22222222},
	{"prmt.b32.ecl %0, %1, %2, %3;", []uint64{0x33221100, 0x77665544, 2}, 0x33222222},
	{"prmt.b32.ecr %0, %1, %2, %3;", []uint64{0x33221100, 0x77665544, 1}, 0x11111100},
	{"prmt.b32.rc16 %0, %1, %2, %3;", []uint64{0x33221100, 0x77665544, 1}, 0x33223322},
	{"lop3.b32 %0, %1, %2, %3, 0x96;", []uint64{0xf0f0, 0xff00, 0xaaaa}, 0xa55a},
	{"lop3.b32 %0, %1, %2, %3, 0xe8;", []uint64{0b0011, 0b0101, 0b1001}, 0b0001},
	{"lop3.b32 %0, %1, %2, %3, 0x2a;", []uint64{0b0011, 0b0101, 0b1111}, 0b1110},
	{"fns.b32 %0, %1, 3, 2;", []uint64{0b101101}, 5},
	{"fns.b32 %0, %1, 5, -2;", []uint64{0b101101}, 3},
	{"selp.b32 %0, 7, 9, %1p;", []uint64{1}, 7},
	{"slct.u32.s32 %0, 7, 9, %1;", []uint64{0xffffffff}, 9},
	{"set.lt.and.u32.s32 %0, %1, 5, %2p;", []uint64{0xffffffff, 1}, 0xffffffff},
	{"{ .reg .pred p, q; setp.lt.or.s32 p|q, %1, 5, !%2p; selp.u32 %0, 1, 0, p; @q add.u32 %0, %0, 2; }", []uint64{9, 0}, 3},
	{"{ .reg .pred p, q; setp.lt.and.s32 p|q, %1, 5, %2p; selp.u32 %0, 1, 0, p; @q add.u32 %0, %0, 2; }", []uint64{9, 1}, 2},
	{"{ .reg .pred p; setp.hs.u16 p, %1s, 5; selp.u32 %0, 1, 0, p; }", []uint64{5}, 1},
	{"{ .reg .b32 l, h; add.cc.u32 l, %1, %2; addc.u32 h, 0, 0; mov.b64 %0l, {l, h}; }", []uint64{0xffffffff, 2}, 0x100000001},
	{"{ .reg .b32 l, h; sub.cc.u32 l, %1, %2; subc.u32 h, 1, 0; mov.b64 %0l, {l, h}; }", []uint64{1, 2}, 0xffffffff},
	{"{ .reg .b32 l, h; mad.lo.cc.u32 l, %1, %2, %3; madc.hi.u32 h, %1, %2, 0; mov.b64 %0l, {l, h}; }", []uint64{0xffffffff, 0xffffffff, 0xffffffff}, 0xffffffff00000000},
	{"{ .reg .b16 a, b; mov.b32 {a, b}, %1; mov.b32 %0, {b, a}; }", []uint64{0x12345678}, 0x56781234},
	{"cvt.u32.u8 %0, %1;", []uint64{0x1ff}, 0xff},
	{"cvt.s32.s8 %0, %1;", []uint64{0x80}, 0xffffff80},
	{"cvt.sat.u8.s32 %0, %1;", []uint64{0xfffffffe}, 0},
	{"cvt.sat.u8.s32 %0, %1;", []uint64{300}, 255},
	{"cvt.sat.s8.s32 %0, %1;", []uint64{0xffffff00}, 0xffffff80},
	{"cvt.sat.s16.u32 %0s, %1;", []uint64{0xffffffff}, 0x7fff},
	{"cvt.s64.s32 %0l, %1;", []uint64{0x80000000}, 0xffffffff80000000},
	{"cvt.rn.f32.u64 %0f, %1l;", []uint64{0x1000001000000001}, 0x5d800001},
	{"cvt.rzi.s32.f32 %0, %1f;", []uint64{0xc0200000}, 0xfffffffe},
	{"cvt.rni.s32.f32 %0, %1f;", []uint64{0x40200000}, 2},
	{"cvt.rmi.s32.f32 %0, %1f;", []uint64{0xc0200000}, 0xfffffffd},
	{"cvt.rzi.u8.f32 %0, %1f;", []uint64{0x43c80000}, 255},
	{"cvt.rzi.s32.f32 %0, %1f;", []uint64{0x7fc00000}, 0},
	{"cvt.rn.f16.f32 %0s, %1f;", []uint64{0x3f801000}, 0x3c00},
	{"cvt.rn.f16.f32 %0s, %1f;", []uint64{0x33800000}, 1},
	{"cvt.rn.f16.f32 %0s, %1f;", []uint64{0x477ff000}, 0x7c00},
	{"cvt.f32.f16 %0f, %1s;", []uint64{0xc001}, 0xc0002000},
	{"fma.rn.f32 %0f, %1f, %2f, %3f;", []uint64{0x3f800001, 0x3f800001, 0xbf800002}, 0x28800000},
	{"add.f32 %0f, %1f, %2f;", []uint64{0x3f800000, 0x33800000}, 0x3f800000},
	{"add.ftz.f32 %0f, %1f, %2f;", []uint64{1, 1}, 0},
	{"min.f32 %0f, %1f, %2f;", []uint64{0x7fc00000, 0x3f800000}, 0x3f800000},
	{"add.u16x2 %0, %1, %2;", []uint64{0xffff8001, 0x00027fff}, 0x00010000}, // no carry from one to the other
	{"add.s16x2 %0, %1, %2;", []uint64{0x7fffffff, 0x00010001}, 0x80000000},
	{"min.u16x2 %0, %1, %2;", []uint64{0x80000001, 0x7fff8000}, 0x7fff0001},
	{"max.u16x2 %0, %1, %2;", []uint64{0x80000001, 0x7fff8000}, 0x80008000},
	{"min.s16x2 %0, %1, %2;", []uint64{0x80000001, 0x7fff8000}, 0x80008000},
	{"max.s16x2 %0, %1, %2;", []uint64{0x80000001, 0x7fff8000}, 0x7fff0001},
	{"add.f16x2 %0, %1, %2;", []uint64{0x3c004000, 0x3c003c00}, 0x40004200},
	{"dp4a.s32.u32 %0, %1, %2, %3;", []uint64{0xff, 0xff, 1000}, 745},
	{"dp2a.hi.u32.u32 %0, %1, %2, %3;", []uint64{0x00030002, 0x05040000, 1}, 24},
	{"vabsdiff4.u32.u32.u32.add %0, %1, %2, %3;", []uint64{0x01020304, 0x04030201, 1}, 9},
	{"vadd4.u32.u32.u32.sat %0, %1, %2, %3;", []uint64{0xff010203, 0x01010101, 0}, 0xff020304},
	{"vavrg4.u32.u32.u32 %0, %1, %2, %3;", []uint64{0x01020304, 0x02020202, 0}, 0x02020303},
	{"vset4.u32.u32.gt %0, %1, %2, %3;", []uint64{0x01020304, 0x02020202, 0}, 0x00000101},
	{"bmsk.clamp.b32 %0, %1, %2;", []uint64{4, 8}, 0xff0},
	{"mov.u32 %0, %lanemask_lt;", nil, 0},
	{"mov.u32 %0, %lanemask_le;", nil, 1},
	{"mov.u32 %0, %lanemask_eq;", nil, 1},
	{"mov.u32 %0, %lanemask_ge;", nil, 0xffffffff},
	{"mov.u32 %0, %lanemask_gt;", nil, 0xfffffffe},
	{"mov.u32 %0, WARP_SZ;", nil, 32},
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
	return ".version 7.6\n.target sm_80\n.address_size 64\n.visible .entry op(.param .u64 arg)\n{\n\t.reg .b64 %p;\n\t.reg .b32 %t;\n" +
		decl + "\tld.param.u64 %p, [arg];\n" + load + "\t" + text + "\n" + store + "\tret;\n}\n"
}

func TestOps(t *testing.T) {
	for _, op := range ops {
		r := rigOf(t, program(op.text), Options{})
		in := make([]uint64, 5)
		copy(in[1:], op.in)
		p := r.give(in)
		r.run("op", 1, 1, p)
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
		text.WriteString(strings.Replace(p, " op(", fmt.Sprintf(" op%d(", i), 1))
	}
	file := filepath.Join(t.TempDir(), "ops.ptx")
	if err := os.WriteFile(file, []byte(text.String()), 0o666); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(ptxas, "-arch=sm_80", "-o", os.DevNull, file).CombinedOutput(); err != nil {
		t.Errorf("%s", out)
	}
}
