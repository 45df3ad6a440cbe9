package ptxvm

import (
	"strings"
	"testing"
)

// snippet is an entry of a few lines with registers enough; p has the address of its argument.
func snippet(text string) string {
	return ".version 7.6\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 arg)\n{\n\t.reg .b64 %p, %q;\n\t.reg .b32 %r<9>;\n\t.reg .pred %o<4>;\n" +
		"\t.shared .align 4 .b8 s[256];\n\tld.param.u64 %p, [arg];\n\tmov.u32 %r0, %tid.x;\n" + text + "\n\tret;\n}\n"
}

func TestSnippets(t *testing.T) {
	const even = "and.b32 %r1, %r0, 1; setp.eq.u32 %o1, %r1, 0;\n"
	for _, c := range []struct {
		what, text string
		threads    uint32
		want       Kind
	}{
		{"barriers of two paths", even + "@%o1 bra A; bar.sync 0; bra B; A: bar.sync 0; B:", 32, Divergent},
		{"the same without .aligned", even + "@%o1 bra A; barrier.sync 0; bra B; A: barrier.sync 0; B:", 32, ""},
		{"half of the threads, others exit", even + "@%o1 exit; bar.sync 0;", 64, ""},
		{"half of the threads, others wait elsewhere", even + "@%o1 bra A; bar.sync 0; bra B; A: bar.sync 1; B:", 64, Deadlock},
		{"counts that differ", "setp.lt.u32 %o1, %r0, 32; @%o1 bra A; bar.sync 0, 64; bra B; A: bar.sync 0, 96; B:", 64, BadBarrier},
		{"a count of half a warp", "bar.sync 0, 48;", 64, BadBarrier},
		{"barrier 16", "mov.u32 %r1, 16; bar.sync %r1;", 32, BadBarrier},
		{"more threads than there are", "bar.sync 0, 96;", 64, Deadlock},
		{"a lane not in its mask", "bar.warp.sync 0x7fffffff;", 32, BadMask},
		{"halves that meet apart", even + "@%o1 bra A; bar.warp.sync 0xaaaaaaaa; bra B; A: bar.warp.sync 0x55555555; B:", 32, ""},
		{"paths that meet", even + "@%o1 bra A; bar.warp.sync -1; bra B; A: bar.warp.sync -1; B:", 32, ""},
		{"masks that differ", even + "selp.b32 %r2, -1, 0xaaaaaaaa, %o1; bar.warp.sync %r2; bar.sync 0;", 32, Deadlock},
		{"a vote of all, in one path", even + "@%o1 vote.sync.any.pred %o2, %o1, -1;", 32, ""},
		{"a table that ends", "L: .branchtargets A, B; brx.idx %r0, L; A: B:", 3, BadBranch},
		{"a write of constants", "st.const.u32 [%p], %r0;", 1, ReadOnly},
		{"a read of constants from elsewhere", "ld.const.u32 %r1, [%p];", 1, ReadOnly},
		{"all write the same", "st.shared.u32 [s], 7;", 64, ""},
		{"all write their number", "st.shared.u32 [s], %r0;", 32, Race},
		{"a sum by atomics", "@!%o0 setp.eq.u32 %o1, %r0, 0; @%o1 st.shared.u32 [s], 0; bar.sync 0; red.shared.add.u32 [s], 1;", 64, ""},
		{"a sum by atomics, read too early", "setp.eq.u32 %o1, %r0, 0; @%o1 st.shared.u32 [s], 0; bar.sync 0; red.shared.add.u32 [s], 1; @%o1 ld.shared.u32 %r1, [s];", 64, Race},
		{"a copy not waited for", "cp.async.ca.shared.global [s], [%p], 4; cp.async.commit_group; bar.sync 0; ld.shared.u32 %r1, [s];", 1, Uninitialised},
		{"a copy waited for", "cp.async.ca.shared.global [s], [%p], 4; cp.async.commit_group; cp.async.wait_group 0; bar.sync 0; ld.shared.u32 %r1, [s];", 1, ""},
		{"neighbours in a warp", "mov.u32 %r1, s; mad.lo.u32 %r2, %r0, 4, %r1; st.shared.u32 [%r2], %r0; bar.warp.sync -1; ld.shared.u32 %r3, [%r1+64];", 32, ""},
		{"neighbours in half a warp", "mov.u32 %r1, s; mad.lo.u32 %r2, %r0, 4, %r1; st.shared.u32 [%r2], %r0; setp.lt.u32 %o1, %r0, 16; @%o1 bar.warp.sync 0xffff; @%o1 ld.shared.u32 %r3, [%r1+64];", 32, Race},
		{"a generic address", "cvta.shared.u64 %q, 16; st.u32 [%q], 1; ld.shared.u32 %r1, [16]; isspacep.shared %o1, %q; @!%o1 trap; isspacep.global %o1, %p; @!%o1 trap;", 1, ""},
		{"beyond the parameters", "ld.param.u64 %q, [arg+8];", 1, OutOfBounds},
		{"a vector that is not aligned", "ld.global.v2.u32 {%r1, %r2}, [%p+4];", 1, Misaligned},
		{"votes of a block", even + "bar.red.popc.u32 %r2, 0, %o1; setp.ne.u32 %o2, %r2, 40; @%o2 trap; bar.red.and.pred %o2, 0, %o1; @%o2 trap; bar.red.or.pred %o2, 0, !%o1; @!%o2 trap;", 80, ""},
	} {
		for seed := range uint64(4) {
			r := rigOf(t, snippet(c.text), Options{Seed: seed})
			_, err := r.launch("k", [3]uint32{1, 1, 1}, [3]uint32{c.threads, 1, 1}, 0, r.give(make([]uint32, 64)))
			if kind := faultOf(nil, err); kind != c.want || kind == "" && err != nil {
				t.Errorf("%s, seed %d: %v", c.what, seed, err)
			}
		}
	}
}

// Shuffles order memory unless only bar.warp.sync is to.
func TestOnlySyncwarp(t *testing.T) {
	text := snippet("mov.u32 %r1, s; mad.lo.u32 %r2, %r0, 4, %r1; st.shared.u32 [%r2], %r0; shfl.sync.idx.b32 %r4, %r0, 0, 31, -1; ld.shared.u32 %r3, [%r1+64];")
	for _, strict := range []bool{false, true} {
		r := rigOf(t, text, Options{OnlySyncwarp: strict})
		_, err := r.launch("k", [3]uint32{1, 1, 1}, [3]uint32{32, 1, 1}, 0, r.give(uint32(0)))
		if (faultOf(nil, err) == Race) != strict {
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
		"\tcall.uni f;":                       "function f is not defined",
		"\tmov.u32 %r1, \"x;":                 "string without end",
		"\tselp.b32 %r1, %r2, %r3, %r4;":      "%r4 is not a predicate",
		"\tadd.u32 %o1, %r2, %r3;":            "predicate %o1 as a number",
		"\tmov.u32 %r1, 99999999999999999999": "value out of range",
	} {
		if _, err := Parse(snippet(text)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", text, err)
		}
	}
	r := newRig(t, "bytes.75", Options{MaxShared: 1000})
	for _, c := range []struct {
		entry       string
		grid, block [3]uint32
		shared      uint32
		params      int
		says        string
	}{
		{"absent", [3]uint32{1, 1, 1}, [3]uint32{1, 1, 1}, 0, 0, "no entry"},
		{"copy", [3]uint32{1, 0, 1}, [3]uint32{1, 1, 1}, 0, 20, "grid"},
		{"copy", [3]uint32{1, 1, 1}, [3]uint32{129, 1, 1}, 0, 20, "allows 128"},
		{"copy", [3]uint32{1, 1, 1}, [3]uint32{128, 1, 1}, 0, 16, "parameters instead of 20"},
		{"copy", [3]uint32{1, 1, 1}, [3]uint32{128, 1, 1}, 1001, 20, "shared memory"},
	} {
		if _, err := r.p.Launch(c.entry, c.grid, c.block, c.shared, make([]byte, c.params)); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
