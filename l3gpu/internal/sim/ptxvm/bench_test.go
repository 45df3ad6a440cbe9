package ptxvm

import "testing"

func BenchmarkCollatz(b *testing.B) {
	bench(b, "warp.75", Options{}, func(r *rig) *Stats {
		in := make([]uint32, 1024)
		for i := range in {
			in[i] = 27
		}
		return r.run("collatz", 4, 256, r.give(in), r.alloc(4096), uint32(1024))
	})
}

func BenchmarkSIMD(b *testing.B) {
	bench(b, "bytes.75", Options{}, func(r *rig) *Stats {
		return r.run("simd", 8, 128, r.give(make([]uint32, 2048)), r.alloc(1024*32*4))
	})
}

func BenchmarkReduce(b *testing.B) {
	bench(b, "shared.75", Options{}, func(r *rig) *Stats {
		return r.run("reduce", 16, 256, r.give(make([]uint32, 4096)), r.alloc(64))
	})
}

func BenchmarkReduceUnchecked(b *testing.B) {
	bench(b, "shared.75", Options{AllowRaces: true}, func(r *rig) *Stats {
		return r.run("reduce", 16, 256, r.give(make([]uint32, 4096)), r.alloc(64))
	})
}

func bench(b *testing.B, name string, o Options, f func(r *rig) *Stats) {
	n := uint64(0)
	r := newRig(b, name, o)
	for b.Loop() {
		n += f(r).Total.Lanes
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds()/1e6, "Mlanes/s")
}
