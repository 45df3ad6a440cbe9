package resample

import (
	"math"
	"sync"

	"github.com/pipefs/pipefs/internal/lru"
)

// Filter says how much source positions count by their distance.
type Filter uint8

// The filters of Pillow that there are.
const (
	Bilinear Filter = iota // a triangle
	Bicubic                // with a = -0.5
)

const (
	// precision is the number of bits after the point of a weight: 8 are left for
	// the value, 2 for sums that go over.
	precision = 32 - 8 - 2
	half      = 1 << (precision - 1)
)

// support is the distance from which on positions do not count.
func (f Filter) support() float64 {
	if f == Bicubic {
		return 2
	}
	return 1
}

// at is the filter's value at a distance. The conversions keep the compiler from fusing a
// multiplication with an addition, which Pillow's does not.
func (f Filter) at(x float64) float64 {
	x = math.Abs(x)
	switch {
	case f == Bilinear && x < 1:
		return 1 - x
	case f == Bicubic && x < 1:
		return float64(float64((float64(1.5*x)-2.5)*x)*x) + 1
	case f == Bicubic && x < 2:
		return float64((float64((float64((x-5)*x)+8)*x) - 4) * -0.5)
	}
	return 0
}

// weights says which source positions make up each position of the result, and how much of
// each.
type weights struct {
	out   int
	most  int     // the largest number of taps of a position
	first []int32 // the source position of the first tap
	count []int32 // taps
	taps  []int32 // most of each position
	// moderate: no sum is beyond 32 bits.
	moderate bool
	packed   packed
}

// newWeights computes a filter. The order of operations is Pillow's, since the last bit of a
// weight depends on it.
func newWeights(in, out int, f Filter) *weights {
	scale := float64(in) / float64(out)
	support := float64(f.support() * max(scale, 1))
	narrow := 1 / max(scale, 1)
	w := &weights{out: out, first: make([]int32, out), count: make([]int32, out), moderate: true}
	exact := make([]float64, 0, int(math.Ceil(support))*2+1)
	all := make([]int32, 0, out*cap(exact))
	starts := make([]int, out)
	for i := range out {
		center := float64((float64(i) + 0.5) * scale)
		begin := max(0, int(center-support+0.5))
		end := min(in, int(center+support+0.5))
		exact = exact[:0]
		sum := 0.0
		for j := begin; j < end; j++ {
			v := f.at(float64((float64(j) - center + 0.5) * narrow))
			exact = append(exact, v)
			sum += v
		}
		start := len(all)
		size := int64(0)
		for _, v := range exact {
			if sum != 0 {
				v /= sum
			}
			k := fixed(v)
			size += max(int64(k), -int64(k))
			if k == 0 && len(all) == start {
				begin++ // it does not count
				continue
			}
			all = append(all, k)
		}
		for len(all) > start && all[len(all)-1] == 0 {
			all = all[:len(all)-1]
		}
		if len(all) == start {
			begin = min(begin, in-1)
		}
		w.first[i], w.count[i], starts[i] = int32(begin), int32(len(all)-start), start
		w.most = max(w.most, len(all)-start)
		w.moderate = w.moderate && 255*size+half <= math.MaxInt32
	}
	w.taps = make([]int32, out*w.most)
	for i, start := range starts {
		copy(w.taps[i*w.most:], all[start:start+int(w.count[i])])
	}
	if accelerated {
		w.packed = pack(w)
	}
	return w
}

// fixed rounds as Pillow does.
func fixed(v float64) int32 {
	v = float64(v * (1 << precision))
	if v < 0 {
		return int32(v - 0.5)
	}
	return int32(v + 0.5)
}

// of returns the taps of a position.
func (w *weights) of(i int) []int32 { return w.taps[i*w.most:][:w.count[i]] }

// size is the number of bytes of memory.
func (w *weights) size() int64 {
	return int64(4 * (len(w.first) + len(w.count) + len(w.taps) + len(w.packed.words)))
}

// What is remembered: random crops of photographs, scaled to one size, need some hundreds of
// weights, 10 kB each.
const (
	rememberedBytes = 8 << 20
	remembered      = 2048
)

// key is what weights depend on.
type key struct {
	in, out int
	filter  Filter
	packed  bool
}

var (
	memoryMu sync.Mutex
	memory   = lru.New[key, *weights](rememberedBytes, remembered)
)

// weightsOf computes weights, or remembers them. They are never written to again.
func weightsOf(in, out int, f Filter) *weights {
	k := key{in, out, f, accelerated}
	memoryMu.Lock()
	w, ok := memory.Get(k)
	memoryMu.Unlock()
	if ok {
		return w
	}
	w = newWeights(in, out, f)
	if size := w.size(); size <= rememberedBytes/4 {
		memoryMu.Lock()
		memory.Put(k, w, size)
		memoryMu.Unlock()
	}
	return w
}
