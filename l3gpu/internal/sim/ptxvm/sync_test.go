package ptxvm

import (
	"slices"
	"strings"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
)

// snippet is an entry of a few lines with registers enough; p has the address of its argument.
func snippet(text string) string {
	return ".version 7.6\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 arg)\n{\n\t.reg .b64 %p, %q;\n\t.reg .b32 %r<9>;\n\t.reg .pred %o<4>;\n" +
		"\t.shared .align 4 .b8 s[256];\n\tld.param.u64 %p, [arg];\n\tmov.u32 %r0, %tid.x;\n" + text + "\n\tret;\n}\n"
}

// neighbours has each thread write a word of its own.
const neighbours = "mov.u32 %r1, s; mad.lo.u32 %r2, %r0, 4, %r1; st.shared.u32 [%r2], %r0; "

func TestFaults(t *testing.T) {
	const even = "and.b32 %r1, %r0, 1; setp.eq.u32 %o1, %r1, 0;\n"
	const address = "mad.wide.u32 %q, %r0, 4, %p;\n"
	for _, c := range []struct {
		what, text string
		threads    uint32
		want       Kind
		says       string
	}{
		{"beyond an allocation", address + "st.global.u32 [%q], %r0;", 65, OutOfBounds, "byte 256 of an allocation of 256, block 0 thread 64, line 13"},
		{"far from any", "st.global.u32 [%p+0x7fffffff], %r0;", 1, Misaligned, ""},
		{"at 0", "mov.u64 %q, 0; st.global.u32 [%q], %r0;", 1, OutOfBounds, "nothing is allocated"},
		{"one byte off", "st.global.u32 [%p+1], %r0;", 1, Misaligned, "4 bytes at"},
		{"a vector that is not aligned", "ld.global.v2.u32 {%r1, %r2}, [%p+4];", 1, Misaligned, ""},
		{"beyond the parameters", "ld.param.u64 %q, [arg+8];", 1, OutOfBounds, "8 bytes of parameters"},
		{"beyond shared memory", "st.shared.u32 [s+256], %r0;", 1, OutOfBounds, "256 bytes of shared memory"},
		{"beyond local memory", ".local .align 4 .b8 m[8]; st.local.u32 [m+8], %r0;", 1, OutOfBounds, "8 bytes of local memory"},
		{"shared memory that nobody wrote", "ld.shared.u32 %r1, [s];", 1, Uninitialised, "shared memory"},
		{"endless", "A: bra A;", 1, Budget, ""},

		{"a lane not in its mask", "bar.warp.sync 0x7fffffff;", 32, BadMask, ""},
		{"halves that meet apart", even + "@%o1 bra A; bar.warp.sync 0xaaaaaaaa; bra B; A: bar.warp.sync 0x55555555; B:", 32, "", ""},
		{"paths that meet", even + "@%o1 bra A; bar.warp.sync -1; bra B; A: bar.warp.sync -1; B:", 32, "", ""},
		{"others exit", even + "@%o1 exit; bar.warp.sync -1;", 64, "", ""},
		{"masks that differ", even + "selp.b32 %r2, -1, 0xaaaaaaaa, %o1; bar.warp.sync %r2; redux.sync.add.u32 %r3, %r0, -1;", 32, Deadlock, "bar.warp.sync"},
		{"another instruction", even + "@%o1 bra A; bar.warp.sync -1; bra B; A: redux.sync.add.u32 %r1, %r0, -1; B:", 32, Deadlock, "redux"},
		{"a vote of all, in one path", even + "@%o1 vote.sync.any.pred %o2, %o1, -1;", 32, "", ""},

		{"all write the same", "st.shared.u32 [s], 7;", 64, "", ""},
		{"all write their number", "st.shared.u32 [s], %r0;", 32, Race, "writes byte 0x0 of shared memory, written by thread"},
		{"neighbours in a warp", neighbours + "bar.warp.sync -1; ld.shared.u32 %r3, [%r1+64];", 32, "", ""},
		{"neighbours that did not meet", neighbours + "ld.shared.u32 %r3, [%r1+64];", 32, Race, "with no barrier between"},
		{"neighbours in half a warp", neighbours + "setp.lt.u32 %o1, %r0, 16; @%o1 bar.warp.sync 0xffff; @%o1 ld.shared.u32 %r3, [%r1+64];", 32, Race, ""},
		{"another warp", neighbours + "bar.warp.sync -1; setp.gt.u32 %o1, %r0, 31; @%o1 ld.shared.u32 %r3, [%r1];", 64, Race, ""},
		{"written after it was read", "setp.eq.u32 %o1, %r0, 0; @%o1 st.shared.u32 [s], 1; bar.warp.sync -1; ld.shared.u32 %r1, [s]; @%o1 st.shared.u32 [s], 2;", 32, Race, ""},
	} {
		for seed := range uint64(4) {
			r := newRig(t, snippet(c.text), Options{Seed: seed, MaxInstructions: 10000})
			_, err := r.launch(1, c.threads, r.give(make([]uint32, 64)))
			if kind := faultOf(err); kind != c.want || kind == "" && err != nil || err != nil && seed == 0 && !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s, seed %d: %v", c.what, seed, err)
			}
		}
	}
}

// Memory of the device that is not there any more, or has nothing in it.
func TestMemory(t *testing.T) {
	r := newRig(t, snippet("ld.global.u32 %r1, [%p];"), Options{})
	empty, err := r.d.Alloc(4, 16)
	testenv.Must(t, err)
	if _, err := r.launch(1, 1, empty); faultOf(err) != Uninitialised {
		t.Error(err)
	}
	if err := r.d.Read(empty, make([]byte, 4)); err == nil {
		t.Error("what nobody wrote was read")
	}
	freed := r.give(uint32(0))
	testenv.Must(t, r.d.Free(freed))
	if _, err := r.launch(1, 1, freed); faultOf(err) != Freed {
		t.Error(err)
	}
	if err := r.d.Free(freed); err == nil {
		t.Error("freed twice")
	}
}

// Each thread has a loop of another length, with a branch inside.
func TestDivergence(t *testing.T) {
	const n = 100
	text := snippet(`
	mov.u32 %r1, %ctaid.x;
	mad.lo.u32 %r1, %r1, 50, %r0;
	mad.wide.u32 %q, %r1, 4, %p;
	ld.global.u32 %r2, [%q];
	mov.u32 %r3, 0;
A:	setp.eq.u32 %o1, %r2, 1;
	@%o1 bra D;
	add.u32 %r3, %r3, 1;
	and.b32 %r4, %r2, 1;
	setp.ne.u32 %o2, %r4, 0;
	@%o2 bra B;
	shr.u32 %r2, %r2, 1;
	bra.uni A;
B:	mad.lo.u32 %r2, %r2, 3, 1;
	bra.uni A;
D:	st.global.u32 [%q], %r3;
	red.global.max.u32 [%p+400], %r3;`)
	in, want := make([]uint32, n+1), make([]uint32, n+1)
	for i := range n {
		in[i] = uint32(7*i + 1)
		for v := in[i]; v != 1; want[i]++ {
			if v&1 != 0 {
				v = 3*v + 1
			} else {
				v /= 2
			}
		}
		want[n] = max(want[n], want[i])
	}
	for _, o := range []Options{{}, {Seed: 1}, {Seed: 2, Workers: 3}} {
		r := newRig(t, text, o)
		at := r.give(in)
		s := r.run(2, 50, at)
		if got := take[uint32](r, at, n+1); !slices.Equal(got, want) {
			t.Errorf("%+v: %d instead of %d", o, got, want)
		}
		if s.Total.Lanes >= 32*s.Total.Warps || s.Total.Lanes == 0 {
			t.Errorf("%+v", s.Total)
		}
	}
}

// What the lanes of a warp say to each other.
func TestCollectives(t *testing.T) {
	for _, c := range []struct {
		text string
		want func(in []uint32, lane int) uint32
	}{
		{"shfl.sync.idx.b32 %r2, %r1, %r1, 31, -1;", func(in []uint32, l int) uint32 { return in[in[l]&31] }},
		{"shfl.sync.up.b32 %r2, %r1, 3, 0, -1;", func(in []uint32, l int) uint32 {
			if l < 3 {
				return in[l]
			}
			return in[l-3]
		}},
		{"shfl.sync.up.b32 %r2|%o1, %r1, 2, 0x1c00, -1; selp.u32 %r2, %r2, 0, %o1;", func(in []uint32, l int) uint32 { // of 4 lanes
			if l&3 < 2 {
				return 0
			}
			return in[l-2]
		}},
		{"shfl.sync.down.b32 %r2, %r1, 3, 31, -1;", func(in []uint32, l int) uint32 {
			if l+3 > 31 {
				return in[l]
			}
			return in[l+3]
		}},
		{"shfl.sync.bfly.b32 %r2, %r1, 5, 31, -1;", func(in []uint32, l int) uint32 { return in[l^5] }},
		{"redux.sync.add.u32 %r2, %r1, -1;", func(in []uint32, _ int) (sum uint32) {
			for _, v := range in {
				sum += v
			}
			return sum
		}},
		{"setp.eq.u32 %o1, %r0, 9; vote.sync.any.pred %o2, %o1, -1; selp.u32 %r2, 1, 0, %o2;", func([]uint32, int) uint32 { return 1 }},
		{"setp.eq.u32 %o1, %r0, 9; vote.sync.all.pred %o2, %o1, -1; selp.u32 %r2, 1, 0, %o2;", func([]uint32, int) uint32 { return 0 }},
		{"setp.eq.u32 %o1, %r0, 99; vote.sync.all.pred %o2, !%o1, -1; selp.u32 %r2, 1, 0, %o2;", func([]uint32, int) uint32 { return 1 }},
	} {
		for seed := range uint64(3) {
			r := newRig(t, snippet("mad.wide.u32 %q, %r0, 4, %p; ld.global.u32 %r1, [%q];\n"+c.text+"\nst.global.u32 [%q], %r2;"), Options{Seed: seed})
			in := make([]uint32, 32)
			for i := range in {
				in[i] = uint32(i*i*i) * 0x9e3779b1 >> 7
			}
			at := r.give(in)
			r.run(1, 32, at)
			for l, got := range take[uint32](r, at, 32) {
				if want := c.want(in, l); got != want {
					t.Errorf("%s: lane %d has %#x instead of %#x", c.text, l, got, want)
				}
			}
		}
	}
}

// TestStats has accesses counted.
func TestStats(t *testing.T) {
	r := newRig(t, snippet("mad.wide.u32 %q, %r0, 8, %p; ld.global.u32 %r1, [%q]; mov.u32 %r2, s; mad.lo.u32 %r2, %r0, 8, %r2; st.shared.u32 [%r2], %r1;"), Options{})
	s := r.run(1, 32, r.give(make([]uint32, 64)))
	if s.GlobalAccesses != 1 || s.GlobalSectors < 8 || s.GlobalSectors > 9 || s.SharedAccesses != 1 || s.BankConflicts != 1 {
		t.Errorf("%+v", s)
	}
}

// Shuffles order memory unless only bar.warp.sync is to.
func TestOnlySyncwarp(t *testing.T) {
	text := snippet(neighbours + "shfl.sync.idx.b32 %r4, %r0, 0, 31, -1; ld.shared.u32 %r3, [%r1+64];")
	for _, strict := range []bool{false, true} {
		r := newRig(t, text, Options{OnlySyncwarp: strict})
		_, err := r.launch(1, 32, r.give(uint32(0)))
		if (faultOf(err) == Race) != strict {
			t.Errorf("%v: %v", strict, err)
		}
	}
}

func TestRefusals(t *testing.T) {
	for text, says := range map[string]string{
		"\twgmma.fence.sync.aligned;":         "line 12: unknown instruction wgmma.fence.sync.aligned",
		"\n\tadd.u32 %r1, %r77, 2;":           "line 13: %r77 is not declared",
		"\tadd.rz.f32 %r1, %r2, %r3;":         "unknown instruction add.rz.f32",
		"\tbra nowhere;":                      "label nowhere is not there",
		"\tadd.u32 %r1, %r2;":                 "2 operands instead of 3",
		"\tld.global.u64 %r1, [%p];":          "register %r1 is too small",
		"\tld.u32 %r1, [%p];":                 "unknown instruction ld.u32",
		"\tbar.sync 0;":                       "unknown instruction bar.sync",
		"\tmov.u32 %r1, \"x;":                 "string without end",
		"\tselp.b32 %r1, %r2, %r3, %r4;":      "%r4 is not a predicate",
		"\tadd.u32 %o1, %r2, %r3;":            "predicate %o1 as a number",
		"\tmov.u32 %r1, 99999999999999999999": "value out of range",
	} {
		if _, err := Parse(snippet(text)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", text, err)
		}
	}
	r := newRig(t, strings.Replace(snippet(""), "(.param .u64 arg)", "(.param .u64 arg) .maxntid 64, 1, 1", 1), Options{})
	for _, c := range []struct {
		entry           string
		blocks, threads uint32
		params          int
		says            string
	}{
		{"absent", 1, 1, 0, "no entry"},
		{"k", 0, 1, 8, "0 blocks"},
		{"k", 1, 65, 8, "allows 64"},
		{"k", 1, 64, 4, "parameters instead of 8"},
	} {
		if _, err := r.p.Launch(c.entry, c.blocks, c.threads, make([]byte, c.params)); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
