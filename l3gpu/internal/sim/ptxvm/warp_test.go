package ptxvm

import (
	"math/bits"
	"strings"
	"testing"
)

func TestScan(t *testing.T) {
	everyWay(t, "warp", func(r *rig) {
		const blocks, threads, n = 3, 160, 3*160 - 50
		in := r.words(n)
		out := r.alloc(4 * n)
		r.run("scan", blocks, threads, r.give(in), out, uint32(n))
		want := make([]uint32, n)
		for i := range want {
			if want[i] = in[i]; i%threads > 0 {
				want[i] += want[i-1]
			}
		}
		same(r.t, "scan", take[uint32](r, out, n), want)
	})
}

func TestTalk(t *testing.T) {
	everyWay(t, "warp", func(r *rig) {
		in := r.words(64)
		out := r.alloc(64 * 16 * 4)
		r.run("talk", 1, 64, r.give(in), out)
		got := take[uint32](r, out, 64*16)
		want := make([]uint32, 64*16)
		for i := range in {
			talk(want[16*i:16*i+16], in, i, r.arch == "sm_90")
		}
		for i := range in { // what depends on the others' words
			want[16*i+12] = want[16*(i&^31+(i+1)&31)+10]
		}
		for i := range got {
			if i%16 == 11 && i/16%32 < 20 {
				// activemask: whoever happens to be together
				if got[i]>>(i/16%32)&1 == 0 || got[i]&^0xfffff != 0 {
					r.t.Fatalf("thread %d: activemask %#x", i/16, got[i])
				}
				want[i] = got[i]
			}
			if got[i] != want[i] {
				r.t.Fatalf("thread %d, word %d: %#x, should be %#x", i/16, i%16, got[i], want[i])
			}
		}
	})
}

// talk is the kernel of that name for thread i.
func talk(o, in []uint32, i int, redux bool) {
	lane := i & 31
	w := in[i&^31 : i&^31+32]
	v := w[lane]
	bit := func(b bool) uint32 {
		if b {
			return 1
		}
		return 0
	}
	o[0] = w[v&31]
	if o[1] = w[lane]; lane&7+3 < 8 {
		o[1] = w[lane+3]
	}
	o[2] = w[lane]
	if lane^5 <= lane|15 {
		o[2] = w[lane^5]
	}
	if o[3] = w[lane]; lane&3 >= 2 {
		o[3] = w[lane-2]
	}
	any7, all, alike := false, true, true
	var sum, most, or uint32
	for j, x := range w {
		o[4] |= x & 1 << j
		any7 = any7 || x == 7
		all = all && x < 1000
		if j < lane {
			o[7] += x >> 2 & 1
		}
		o[8] |= bit(x&3 == v&3) << j
		sum += x
		most = max(most, x)
		or |= x
		alike = alike && x>>31 == w[0]>>31
	}
	o[5], o[6] = bit(any7), bit(all)
	o[9] = uint32(uint64(w[lane^1]) << 20 >> 4)
	o[10], o[11] = 1, 1
	if lane < 20 {
		o[10] = w[19-lane]
	}
	if redux {
		o[13], o[14] = sum, most^or
	}
	if alike { // all lanes, and 1
		o[15] = 0
	}
}

func TestCollatz(t *testing.T) {
	everyWay(t, "warp", func(r *rig) {
		const n = 100
		in, want := make([]uint32, n), make([]uint32, n)
		for i := range in {
			in[i] = 1 + r.rng.Uint32N(1000)
			for v := in[i]; v != 1; want[i]++ {
				if v&1 != 0 {
					v = 3*v + 1
				} else {
					v /= 2
				}
			}
		}
		out := r.alloc(4 * n)
		s := r.run("collatz", 2, 64, r.give(in), out, uint32(n))
		same(r.t, "collatz", take[uint32](r, out, n), want)
		if s.Total.Lanes >= 32*s.Total.Warps || s.Total.Lanes == 0 {
			r.t.Errorf("%+v", s.Total)
		}
	})
}

func TestPick(t *testing.T) {
	everyWay(t, "warp", func(r *rig) {
		in := r.words(64)
		out := r.alloc(4 * 64)
		r.run("pick", 1, 64, r.give(in), out)
		want := make([]uint32, 64)
		for i, v := range in {
			want[i] = [...]uint32{v * 3, v + 17, v ^ 0x5555, bits.Reverse32(v), uint32(bits.OnesCount32(v)),
				uint32(bits.LeadingZeros32(v)), v >> 3, uint32(bits.TrailingZeros32(v)+1) % 33, ^v}[v%9]
		}
		same(r.t, "pick", take[uint32](r, out, 64), want)
	})
}

// Lanes of a warp that take a lock in turn: the one that has it may be further on in the text than those who wait.
func TestLockWithinWarp(t *testing.T) {
	const ptx = `.version 7.0
.target sm_75
.address_size 64
.visible .entry lock(.param .u64 p)
{
	.reg .pred %p<3>;
	.reg .b32 %r<6>;
	.reg .b64 %rd<3>;
	ld.param.u64 %rd1, [p];
	cvta.to.global.u64 %rd1, %rd1;
again:
	atom.global.cas.b32 %r1, [%rd1], 0, 1;
	setp.ne.s32 %p1, %r1, 0;
	@%p1 bra again;
	ld.volatile.global.u32 %r2, [%rd1+4];
	add.u32 %r2, %r2, 1;
	st.volatile.global.u32 [%rd1+4], %r2;
	membar.gl;
	atom.global.exch.b32 %r3, [%rd1], 0;
	ret;
}
`
	for seed := range uint64(3) {
		r := rigOf(t, ptx, Options{Seed: seed, Workers: 2})
		p := r.give([]uint32{0, 0})
		r.run("lock", 3, 64, p)
		same(t, "lock", take[uint32](r, p, 2), []uint32{0, 3 * 64})
	}
}

func TestCall(t *testing.T) {
	const ptx = `.version 7.0
.target sm_75
.address_size 64
.func (.param .b32 result) twice(.param .b32 x, .param .align 4 .b8 s[8])
{
	.reg .pred %p<2>;
	.reg .b32 %r<4>;
	ld.param.u32 %r1, [x];
	ld.param.u32 %r2, [s+4];
	setp.gt.u32 %p1, %r1, 5;
	@%p1 bra big;
	add.u32 %r3, %r1, %r2;
	st.param.b32 [result], %r3;
	ret;
big:
	mul.lo.u32 %r3, %r1, 2;
	st.param.b32 [result], %r3;
	ret;
}
.visible .entry call(.param .u64 p)
{
	.reg .b32 %r<6>;
	.reg .b64 %rd<4>;
	ld.param.u64 %rd1, [p];
	mov.u32 %r1, %tid.x;
	{ .param .b32 a; .param .align 4 .b8 b[8]; .param .b32 out;
	st.param.b32 [a], %r1;
	st.param.b32 [b+4], 100;
	call.uni (out), twice, (a, b);
	ld.param.b32 %r2, [out];
	}
	{ .param .b32 a; .param .align 4 .b8 b[8]; .param .b32 out;
	st.param.b32 [a], %r2;
	st.param.b32 [b+4], 7;
	call.uni (out), twice, (a, b);
	ld.param.b32 %r2, [out];
	}
	mad.wide.u32 %rd2, %r1, 4, %rd1;
	st.global.u32 [%rd2], %r2;
	ret;
}
`
	r := rigOf(t, ptx, Options{})
	p := r.alloc(4 * 32)
	r.run("call", 1, 32, p)
	want := make([]uint32, 32)
	for i := range want {
		if want[i] = uint32(4 * i); i <= 5 {
			want[i] = uint32(i+100) * 2
		}
	}
	same(t, "call", take[uint32](r, p, 32), want)
	_, err := Parse(strings.Replace(ptx, "mul.lo.u32 %r3, %r1, 2;", "call.uni (result), twice, (x, s);", 1))
	if err == nil || !strings.Contains(err.Error(), "line 16") || !strings.Contains(err.Error(), "calls itself") {
		t.Errorf("recursion: %v", err)
	}
}
