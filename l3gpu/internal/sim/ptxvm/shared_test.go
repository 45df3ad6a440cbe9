package ptxvm

import "testing"

func TestTranspose(t *testing.T) {
	everyWay(t, "shared", func(r *rig) {
		const w, h = 70, 50
		in := r.words(w * h)
		out := r.alloc(4 * w * h)
		s, err := r.launch("transpose", [3]uint32{3, 2, 1}, [3]uint32{32, 8, 1}, 0, r.give(in), out, int32(w), int32(h))
		if err != nil {
			r.t.Fatal(err)
		}
		want := make([]uint32, w*h)
		for i := range want {
			want[i] = in[i%h*w+i/h]
		}
		same(r.t, "transpose", take[uint32](r, out, w*h), want)
		if s.BankConflicts != 0 || s.SharedAccesses == 0 {
			r.t.Errorf("%d conflicts in %d accesses", s.BankConflicts, s.SharedAccesses)
		}
	})
}

func TestHistogram(t *testing.T) {
	everyWay(t, "shared", func(r *rig) {
		in := make([]byte, 5000)
		want, sum := make([]uint32, 256), uint64(0)
		for i := range in {
			in[i] = byte(r.rng.Uint32() >> r.rng.IntN(32))
			want[in[i]]++
			sum += uint64(in[i])
		}
		out, total := r.give(make([]uint32, 256)), r.give(uint64(0))
		if _, err := r.launch("histogram", [3]uint32{4, 1, 1}, [3]uint32{96, 1, 1}, 1024, r.give(in), uint32(len(in)), out, total); err != nil {
			r.t.Fatal(err)
		}
		same(r.t, "histogram", take[uint32](r, out, 256), want)
		same(r.t, "sum", take[uint64](r, total, 1), []uint64{sum})
	})
}

func TestAtomics(t *testing.T) {
	everyWay(t, "shared", func(r *rig) {
		const n = 128
		in := make([]int32, n)
		want := []int32{-1000, 1000, 0, -1, 0, 0, 0, 0, 0, 0}
		top := uint64(0)
		for i := range in {
			v := int32(r.rng.Uint32N(2000)) - 1000
			in[i] = v
			want[0], want[1] = max(want[0], v), min(want[1], v)
			want[2], want[3], want[4] = want[2]|v, want[3]&v, want[4]^v
			want[5] -= v
			want[6] = (want[6] + 1) % 10
			want[7] += v & 7
			want[9] += v
			top = max(top, uint64(uint32(v))<<8)
		}
		out := r.give([]int32{-1000, 1000, 0, -1, 0, 0, 0, 0, 0, 0, 0, 0})
		r.run("atomics", 2, n/2, r.give(in), out)
		got := take[int32](r, out, 12)
		want[8] = got[8]
		want[9] -= got[8] // the last one is still there
		same(r.t, "atomics", got[:10], want)
		same(r.t, "64 bits", take[uint64](r, out+40, 1), []uint64{top})
	})
}

func TestReduce(t *testing.T) {
	everyWay(t, "shared", func(r *rig) {
		in := r.words(512)
		want := make([]uint32, 2)
		for i, v := range in {
			want[i/256] += v
		}
		out := r.alloc(8)
		r.run("reduce", 2, 256, r.give(in), out)
		same(r.t, "reduce", take[uint32](r, out, 2), want)
	})
}

func TestPipeline(t *testing.T) {
	everyWay(t, "shared", func(r *rig) {
		const rounds = 7
		in, want := r.words(128*rounds), make([]uint32, 128)
		for i := range want {
			for j := range rounds {
				want[i] = want[i]*31 + in[128*j+127-i]
			}
		}
		out := r.alloc(4 * 128)
		r.run("pipeline", 1, 128, r.give(in), out, int32(rounds))
		same(r.t, "pipeline", take[uint32](r, out, 128), want)
	})
}

func TestNamedBarriers(t *testing.T) {
	everyWay(t, "shared", func(r *rig) {
		in, want := r.words(128), make([]uint32, 128)
		for i := range want {
			want[i] = 2 * in[i&^31+31-i&31]
		}
		out := r.alloc(4 * 128)
		r.run("named", 1, 64, r.give(in), out)
		same(r.t, "named", take[uint32](r, out, 128), want)
	})
}
