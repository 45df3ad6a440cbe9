package ptxvm

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/bits"
	"testing"
)

// each applies f to the lanes of a word, of size bits each.
func each(size int, a, b uint32, f func(a, b int32) int32) uint32 {
	var r uint32
	m := uint32(1)<<size - 1
	for i := 0; i < 32; i += size {
		r |= uint32(f(int32(a>>i&m), int32(b>>i&m))) & m << i
	}
	return r
}

func yes(b bool) int32 {
	if b {
		return -1
	}
	return 0
}

func TestSIMD(t *testing.T) {
	everyWay(t, "bytes", func(r *rig) {
		const n = 128
		in := make([]uint32, 2*n)
		for i := range in {
			in[i] = r.rng.Uint32() >> (r.rng.IntN(4) * 8)
		}
		out := r.alloc(n * 32 * 4)
		r.run("simd", 2, n/2, r.give(in), out)
		got := take[uint32](r, out, n*32)
		for i := range n {
			same(r.t, "simd", got[32*i:32*i+32], simdWant(in[2*i], in[2*i+1]))
		}
	})
}

// simdWant is the kernel simd for one pair.
func simdWant(a, b uint32) []uint32 {
	u4 := func(f func(x, y int32) int32) uint32 { return each(8, a, b, f) }
	s4 := func(f func(x, y int32) int32) uint32 {
		return u4(func(x, y int32) int32 { return f(int32(int8(x)), int32(int8(y))) })
	}
	var sad, usad uint32
	dotS, dotU := int32(100), uint32(7)
	for i := 0; i < 32; i += 8 {
		x, y := a>>i&255, b>>i&255
		sad += max(x, y) - min(x, y)
		dotS += int32(int8(x)) * int32(int8(y))
		dotU += x * y
	}
	usad = max(a, b) - min(a, b) + 5
	all := uint64(b)<<32 | uint64(a)
	perm := func(sel uint32) (r uint32) {
		for i := 0; i < 4; i++ {
			r |= uint32(all>>(sel>>(4*i)&7*8)&255) << (8 * i)
		}
		return r
	}
	hi := int64(int32(a)) * int64(int32(b)) >> 32
	return []uint32{
		u4(func(x, y int32) int32 { return x + y }),
		u4(func(x, y int32) int32 { return x - y }),
		u4(func(x, y int32) int32 { return (x + y + 1) >> 1 }),
		u4(func(x, y int32) int32 { return max(x-y, y-x) }),
		u4(func(x, y int32) int32 { return min(x, y) }),
		u4(func(x, y int32) int32 { return max(x, y) }),
		s4(func(x, y int32) int32 { return min(x, y) }),
		s4(func(x, y int32) int32 { return max(x, y) }),
		u4(func(x, y int32) int32 { return yes(x > y) }),
		u4(func(x, y int32) int32 { return yes(x == y) }),
		sad,
		u4(func(x, y int32) int32 { return min(x+y, 255) }),
		u4(func(x, y int32) int32 { return max(x-y, 0) }),
		perm(a),
		perm(0x3715),
		uint32(all >> (a >> 24 & 31)),
		uint32(all << (b & 31) >> 32),
		uint32(all >> min(b&63, 32)),
		uint32(bits.OnesCount32(a)),
		uint32(bits.TrailingZeros32(b)+1) % 33,
		uint32(bits.LeadingZeros32(a >> (b & 31))),
		bits.Reverse32(a),
		uint32(dotS), dotU,
		uint32(hi), uint32(uint64(a) * uint64(b) >> 32),
		a >> (b & 15) & 0x1ff,
		uint32(int32(a) << 7 >> 20),
		s4(func(x, y int32) int32 { // to the nearest, halves away from zero
			if x+y >= 0 {
				return (x + y + 1) >> 1
			}
			return (x + y) >> 1
		}),
		each(16, a, b, func(x, y int32) int32 { return x + y }),
		s4(func(x, y int32) int32 { return max(x, -x) }),
		usad + (a&b | ^a&0x00ff00ff),
	}
}

func TestWide(t *testing.T) {
	everyWay(t, "bytes", func(r *rig) {
		const n = 64
		in := make([]uint64, 2*n)
		for i := range in {
			in[i] = r.rng.Uint64() >> r.rng.IntN(64) << (r.rng.IntN(2) * r.rng.IntN(64))
		}
		out := r.alloc(n * 16 * 8)
		r.run("wide", 1, n, r.give(in), out)
		got := take[uint64](r, out, n*16)
		for i := range n {
			a, b := in[2*i], in[2*i+1]
			hi, _ := bits.Mul64(a, b)
			want := []uint64{a + b, a * b, 0, 0, 0, a << (b & 63), uint64(int64(a) >> (b & 63)), hi,
				uint64(bits.OnesCount64(a))<<32 | uint64(bits.LeadingZeros64(b))<<8 | uint64(bits.TrailingZeros64(a)+1)%65,
				bits.Reverse64(a), uint64(uint32(a))*uint64(uint32(b)) + a, uint64(int64(int32(a)) * int64(int32(b))),
				max(a, b) - min(a, b), a ^ b, uint64(int64(int8(a))) + uint64(uint16(b)), 0}
			if b != 0 {
				want[2], want[3] = a/b, a%b
			}
			if b|1 != 1<<64-1 {
				want[4] = uint64(int64(a) / int64(b|1))
			}
			if int64(a) < int64(b) {
				want[13] = a & b
			}
			want[15] = hi
			if int64(a) < 0 {
				want[15] -= b
			}
			if int64(b) < 0 {
				want[15] -= a
			}
			same(r.t, "wide", got[16*i:16*i+16], want)
		}
	})
}

func TestTables(t *testing.T) {
	everyWay(t, "bytes", func(r *rig) {
		in := make([]byte, 64)
		for i := range in {
			in[i] = byte(r.rng.Uint32())
		}
		set, size, ok := r.p.Symbol("set")
		if !ok || size != 4 {
			r.t.Fatal("no symbol set")
		}
		if err := r.d.Write(set, U32(1<<20)); err != nil {
			r.t.Fatal(err)
		}
		out := r.alloc(4 * 64)
		r.run("tables", 2, 32, r.give(in), out)
		table := []uint32{1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377, 610, 987, 1597, 2584, 4181, 6765, 10946,
			17711, 28657, 46368, 9, 8, 7, 6, 5, 4, 3, 2}
		order := [64]uint32{0, 1, 8, 16, 9, 2, 3, 10, 17, 24, 32, 25, 18, 11, 4, 5}
		weights := [4]float32{0.5, -1.25, 3.0, 1e-3}
		want := make([]uint32, 64)
		for i, v := range in {
			var local [16]byte
			for j := range 16 {
				local[(j*5+int(v))&15] = byte(j * j)
			}
			w := uint32(max(int(weights[v&3]*1000), 0))
			want[i] = table[v&31] + order[v&63]*65536 + uint32(local[v&15])*7 + table[3+v&7] + w + 1<<20
			if v&7+3 < 32 {
				want[i] += table[3+int(v&7)] - table[3+v&7]
			}
		}
		same(r.t, "tables", take[uint32](r, out, 64), want)
	})
}

func TestNormalise(t *testing.T) {
	everyWay(t, "bytes", func(r *rig) {
		const n = 90
		in := make([]byte, n)
		for i := range in {
			in[i] = byte(r.rng.Uint32())
		}
		scale, shift := [3]float32{0.229, 0.224, 0.225}, [3]float32{0.485, 0.456, 0.406}
		out := r.alloc(4 * n)
		var job bytes.Buffer
		for _, v := range []any{r.give(in), out, uint32(n), scale, shift, int16(2), [2]byte{}} {
			if err := binary.Write(&job, binary.LittleEndian, v); err != nil {
				r.t.Fatal(err)
			}
		}
		r.run("normalise", 2, 32, job.Bytes())
		want := make([]float32, n)
		for i := range n / 2 {
			x := float32(in[2*i])
			c := i % 3
			// two instructions: only an assembler may make one of them
			v := float32(x * (float32(1) / 255))
			v = float32(v-shift[c]) / scale[c]
			want[2*i] = v
			sum := float32(int32(v*100)) + float32(math.Sqrt(float64(float32(i))))
			sum += float32(math.RoundToEven(float64(v)))
			sum += float32(math.Floor(float64(v)))
			want[2*i+1] = sum + float32(float64(v)*1.1)
		}
		same(r.t, "normalise", take[float32](r, out, n), want)
	})
}

func TestCopy(t *testing.T) {
	everyWay(t, "bytes", func(r *rig) {
		const n = 700
		in := r.words(4 * n)
		out := r.alloc(16 * n)
		s := r.run("copy", 2, 128, r.give(in), out, int32(n))
		for i := 0; i < len(in); i += 4 {
			in[i] = ^in[i]
		}
		same(r.t, "copy", take[uint32](r, out, 4*n), in)
		if s.GlobalLoaded != 16*n || s.GlobalStored != 16*n || s.GlobalSectors < n || s.GlobalSectors > n+50 || s.GlobalAccesses != 2*22 {
			r.t.Errorf("%+v", s)
		}
	})
}
