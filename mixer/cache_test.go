package mixer

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
)

// cacheSim opens samples as a reader would, and checks after each open that the
// cache keeps its promises.
type cacheSim struct {
	t         testing.TB
	c         Cache
	cost      func(key uint64) int64
	bytes     int64
	samples   int
	held      map[uint64]bool
	heldBytes int64
	hits      []bool // of each open
	missed    int64  // bytes
	hitsBytes int64
}

func simulate(t testing.TB, policy string, bytes int64, samples int, cost func(uint64) int64) *cacheSim {
	t.Helper()
	c, err := NewCache(policy, bytes, samples)
	testenv.Must(t, err)
	return &cacheSim{t: t, c: c, cost: cost, bytes: bytes, samples: samples, held: map[uint64]bool{}}
}

func (s *cacheSim) drop(key uint64) {
	if !s.held[key] {
		s.t.Fatalf("%d has to go, but it is not kept", key)
	}
	delete(s.held, key)
	s.heldBytes -= s.cost(key)
}

func (s *cacheSim) open(keys ...uint64) {
	for _, key := range keys {
		cost := s.cost(key)
		hit := s.held[key]
		s.hits = append(s.hits, hit)
		if hit {
			s.hitsBytes += cost
		} else {
			s.missed += cost
		}
		keep, evict := s.c.Open(key, cost)
		for _, gone := range evict {
			if gone == key {
				s.t.Fatalf("%d is opened and has to go", key)
			}
			s.drop(gone)
		}
		switch {
		case keep && !hit:
			s.held[key] = true
			s.heldBytes += cost
		case hit && !keep:
			s.drop(key)
		}
		if s.heldBytes > s.bytes || len(s.held) > s.samples {
			s.t.Fatalf("%d bytes of %d, %d samples of %d after %d opens", s.heldBytes, s.bytes, len(s.held), s.samples, len(s.hits))
		}
		if st := s.c.Stats(); st.Bytes != s.heldBytes || st.Samples != len(s.held) || min(st.CurrentBytes, st.NextBytes) < 0 {
			s.t.Fatalf("%+v, but %d samples of %d bytes are kept", st, len(s.held), s.heldBytes)
		}
	}
}

// since begins a new count, and returns the last one: the hit ratio, of bytes, and
// the standard deviation of that of samples over windows of 64 opens.
func (s *cacheSim) since() (ratio, deviation float64, missed int64) {
	ratio = float64(s.hitsBytes) / float64(s.hitsBytes+s.missed)
	_, deviation = ratios(s.hits)
	missed, s.hits, s.missed, s.hitsBytes = s.missed, nil, 0, 0
	return ratio, deviation, missed
}

func ratios(hits []bool) (mean, deviation float64) {
	const window = 64
	var of []float64
	for w := range slices.Chunk(hits, window) {
		if len(w) < window {
			break
		}
		n := 0
		for _, hit := range w {
			if hit {
				n++
			}
		}
		of = append(of, float64(n)/window)
		mean += float64(n) / window
	}
	mean /= float64(len(of))
	for _, r := range of {
		deviation += (r - mean) * (r - mean)
	}
	return mean, math.Sqrt(deviation / float64(len(of)-1))
}

// floor is the deviation of windows of 64 opens of which 0.3 hit by chance.
var floor = math.Sqrt(0.3 * 0.7 / 64)

func sequence(from, n int) []uint64 {
	keys := make([]uint64, n)
	for i := range keys {
		keys[i] = uint64(from + i)
	}
	return keys
}

func shuffled(r *rand.Rand, keys []uint64) []uint64 {
	keys = slices.Clone(keys)
	r.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	return keys
}

func equal(uint64) int64 { return 100_000 }

// varied sizes are log-normal, as those of JPEG files are.
func varied(key uint64) int64 {
	r := rand.New(rand.NewPCG(key, 7))
	return int64(100_000 * math.Exp(0.6*r.NormFloat64()))
}

func total(cost func(uint64) int64, keys []uint64) (bytes int64) {
	for _, k := range keys {
		bytes += cost(k)
	}
	return bytes
}

const many = 1 << 30 // samples: no bound

// TestLiquidIsConstant: what section 4.2 promises, with a sampler that shuffles.
func TestLiquidIsConstant(t *testing.T) {
	for name, cost := range map[string]func(uint64) int64{"equal": equal, "varied": varied} {
		for _, known := range []bool{true, false} {
			keys := sequence(1000, 2000)
			all := total(cost, keys)
			s := simulate(t, LiquidCache, all*3/10, many, cost)
			if known {
				s.c.SetTotal(len(keys))
			}
			r := rand.New(rand.NewPCG(1, 2))
			s.open(shuffled(r, keys)...)
			s.since()
			var hits []bool
			for epoch := range 3 {
				s.open(shuffled(r, keys)...)
				hits = append(hits, s.hits...)
				if _, _, missed := s.since(); float64(missed) > 0.71*float64(all) {
					t.Errorf("%s, known %v: epoch %d misses %.3f of the bytes", name, known, epoch+2, float64(missed)/float64(all))
				}
			}
			p, deviation := ratios(hits)
			if p < 0.28 || p > 0.34 || deviation > 1.2*floor {
				t.Errorf("%s, known %v: hits %.3f ± %.4f, where chance has %.4f", name, known, p, deviation, floor)
			}
			if st := s.c.Stats(); st.Epoch != 4 || st.Population != 2000 || st.Off != "" {
				t.Errorf("%s, known %v: %+v", name, known, st)
			}
		}
	}
}
