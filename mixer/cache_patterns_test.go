package mixer

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// pattern is a way in which jobs read a dataset. It opens samples for several
// epochs and returns the hit ratio that counts.
type pattern struct {
	total int // what the cache is told
	read  func(s *cacheSim, r *rand.Rand) (ratio, deviation float64)
	// least and most that the ratio may be, with room for 30 % of 2,000 samples
	least, most float64
	off         bool // inference is off at the end
	mayOff      bool // it may be
	population  int  // at the end; 0: any
}

// epochsOf reads n epochs of one kind, and counts those after the first two.
func epochsOf(n int, one func(s *cacheSim, r *rand.Rand)) func(s *cacheSim, r *rand.Rand) (ratio, deviation float64) {
	return func(s *cacheSim, r *rand.Rand) (float64, float64) {
		for i := range n {
			if one(s, r); i == 1 {
				s.since()
			}
		}
		ratio, deviation, _ := s.since()
		return ratio, deviation
	}
}

// twice has each sample opened twice, the second time up to so many opens later.
func twice(r *rand.Rand, keys []uint64, later int) (opens []uint64) {
	type at struct {
		when float64
		key  uint64
	}
	var all []at
	for i, k := range keys {
		all = append(all, at{float64(i), k}, at{float64(i) + r.Float64()*float64(later)/2, k})
	}
	slices.SortStableFunc(all, func(a, b at) int {
		switch {
		case a.when < b.when:
			return -1
		case a.when > b.when:
			return 1
		}
		return 0
	})
	for _, a := range all {
		opens = append(opens, a.key)
	}
	return opens
}

// ranks interleaves what several ranks read of a permutation that is padded to a
// multiple of their number; each is ahead of the others or behind by some.
func ranks(r *rand.Rand, perm []uint64, n, ahead int) (opens []uint64) {
	padded := slices.Clone(perm)
	for i := 0; len(padded)%n != 0; i++ {
		padded = append(padded, perm[i])
	}
	at := make([]int, n)
	for len(opens) < len(padded) {
		rank := r.IntN(n)
		if i := at[rank]*n + rank; i < len(padded) && at[rank] <= slices.Min(at)+ahead {
			opens = append(opens, padded[i])
			at[rank]++
		}
	}
	return opens
}

var (
	train      = sequence(1000, 2000)
	validation = sequence(5000, 300)
)

var patterns = map[string]pattern{
	"random": {total: 2000, least: 0.28, most: 0.32, population: 2000,
		read: epochsOf(5, func(s *cacheSim, r *rand.Rand) { s.open(shuffled(r, train)...) })},
	"sequential": {total: 2000, least: 0.28, most: 0.32, population: 2000,
		read: epochsOf(5, func(s *cacheSim, _ *rand.Rand) { s.open(train...) })},
	"sequential, total unknown": {least: 0.28, most: 0.32, population: 2000,
		read: epochsOf(5, func(s *cacheSim, _ *rand.Rand) { s.open(train...) })},
	"four ranks, padded": {total: 2001, least: 0.28, most: 0.32, population: 2001,
		read: epochsOf(6, func(s *cacheSim, r *rand.Rand) { s.open(ranks(r, shuffled(r, sequence(0, 2001)), 4, 50)...) })},
	// What was given up lingers for the second time.
	"every sample twice, sixteen workers": {total: 2000, least: 0.33, most: 0.42, population: 2000,
		read: epochsOf(5, func(s *cacheSim, r *rand.Rand) { s.open(twice(r, shuffled(r, train), 32)...) })},
	"the last batch dropped": {total: 2000, least: 0.27, most: 0.32,
		read: epochsOf(8, func(s *cacheSim, r *rand.Rand) { s.open(shuffled(r, train)[:1950]...) })},
	"a part of the dataset": {total: 5000, least: 0.28, most: 0.32,
		read: epochsOf(6, func(s *cacheSim, r *rand.Rand) { s.open(shuffled(r, train)...) })},
	"validation after each epoch": {total: 2300, least: 0.24, most: 0.28, population: 2300,
		read: epochsOf(6, func(s *cacheSim, r *rand.Rand) { s.open(shuffled(r, train)...); s.open(validation...) })},
	"validation after each epoch, total unknown": {least: 0.24, most: 0.28, population: 2300,
		read: epochsOf(6, func(s *cacheSim, r *rand.Rand) { s.open(shuffled(r, train)...); s.open(validation...) })},
	"one validation in between": {total: 2300, least: 0.28, most: 0.32, population: 2000,
		read: func(s *cacheSim, r *rand.Rand) (float64, float64) {
			for epoch := range 8 {
				if epoch == 3 {
					s.since()
				}
				s.open(shuffled(r, train)...)
				if epoch == 2 || epoch == 5 {
					ratio, deviation, _ := s.since()
					s.open(validation...)
					s.since()
					if epoch == 5 && (ratio < 0.28 || ratio > 0.32) {
						return ratio, deviation
					}
				}
			}
			ratio, deviation, _ := s.since()
			return ratio, deviation
		}},
	// Which of them are an epoch cannot be told; the validation is kept.
	"validation within epochs": {total: 2300, least: 0.3, most: 0.6, off: true,
		read: epochsOf(8, func(s *cacheSim, r *rand.Rand) {
			for part := range slices.Chunk(shuffled(r, train), 500) {
				s.open(part...)
				s.open(validation...)
			}
		})},
	"two jobs, half an epoch apart": {total: 2000, least: 0.26, most: 0.36,
		read: func(s *cacheSim, r *rand.Rand) (float64, float64) {
			var a, b []uint64
			b = append(b, make([]uint64, 1000)...)
			for range 6 {
				a, b = append(a, shuffled(r, train)...), append(b, shuffled(r, train)...)
			}
			for i := range a {
				if i == 4000 {
					s.since()
				}
				if s.open(a[i]); b[i] != 0 {
					s.open(b[i])
				}
			}
			ratio, deviation, _ := s.since()
			return ratio, deviation
		}},
	"two jobs of different speeds and samples": {total: 2000, least: 0.2, most: 0.4,
		read: func(s *cacheSim, r *rand.Rand) (float64, float64) {
			var slow, fast []uint64
			for range 4 {
				slow = append(slow, shuffled(r, train[:1200])...)
			}
			for len(fast) < 5*len(slow) {
				fast = append(fast, shuffled(r, train[1200:])...)
			}
			for i, k := range slow {
				if i == 2400 {
					s.since()
				}
				s.open(k)
				s.open(fast[5*i : 5*i+5]...)
			}
			ratio, deviation, _ := s.since()
			return ratio, deviation
		}},
	"with replacement": {total: 2000, least: 0.25, most: 0.35,
		read: epochsOf(12, func(s *cacheSim, r *rand.Rand) {
			for range train {
				s.open(train[r.IntN(len(train))])
			}
		})},
	"another half twice each time": {total: 2000, least: 0.25, most: 0.32, mayOff: true,
		read: epochsOf(12, func(s *cacheSim, r *rand.Rand) {
			half := shuffled(r, train)[:1000]
			s.open(half...)
			s.open(shuffled(r, half)...)
		})},
	"the dataset grows": {total: 2000, least: 0.26, most: 0.32, population: 2200,
		read: func(s *cacheSim, r *rand.Rand) (float64, float64) {
			for epoch := range 8 {
				keys := train
				if epoch >= 2 {
					keys = sequence(1000, 2200)
					s.c.SetTotal(2200)
				}
				if epoch == 5 {
					s.since()
				}
				s.open(shuffled(r, keys)...)
			}
			ratio, deviation, _ := s.since()
			return ratio, deviation
		}},
	"the job goes on to other samples": {total: 4000, least: 0.28, most: 0.32, population: 2000,
		read: func(s *cacheSim, r *rand.Rand) (float64, float64) {
			for epoch := range 11 {
				keys := train
				if epoch >= 4 {
					keys = sequence(10_000, 2000)
				}
				if epoch == 8 {
					s.since()
				}
				s.open(shuffled(r, keys)...)
			}
			ratio, deviation, _ := s.since()
			return ratio, deviation
		}},
	"too small a total": {total: 1000, least: 0.26, most: 0.32, population: 2000,
		read: func(s *cacheSim, r *rand.Rand) (float64, float64) {
			for epoch := range 10 {
				if epoch == 6 {
					s.since()
				}
				s.open(shuffled(r, train)...)
			}
			ratio, deviation, _ := s.since()
			return ratio, deviation
		}},
}

// TestLiquidPatterns: whatever reads, the ratio is about that of the budget, and no
// promise is broken.
func TestLiquidPatterns(t *testing.T) {
	for name, p := range patterns {
		for _, cost := range []func(uint64) int64{equal, varied} {
			for seed := range uint64(3) {
				s := simulate(t, LiquidCache, total(cost, train)*3/10, many, cost)
				s.c.SetTotal(p.total)
				ratio, deviation := p.read(s, rand.New(rand.NewPCG(seed, 3)))
				st := s.c.Stats()
				if seed == 0 {
					t.Logf("%-45s hits %.3f ± %.3f, epoch %d, population %d %s", name, ratio, deviation, st.Epoch, st.Population, st.Off)
				}
				if ratio < p.least || ratio > p.most || !p.mayOff && (st.Off != "") != p.off || p.population != 0 && st.Population != p.population {
					t.Errorf("%s, seed %d: hits %.3f ± %.3f, want %.2f to %.2f, population %d, off %v; %+v", name, seed, ratio, deviation, p.least, p.most, p.population, p.off, st)
				}
			}
		}
	}
}

// TestEpochsDoNotSlip: what is missed at the beginning of an epoch does not make the
// next one begin later still.
func TestEpochsDoNotSlip(t *testing.T) {
	for seed := range uint64(100) {
		s := simulate(t, LiquidCache, 29_000, many, func(uint64) int64 { return 100 })
		s.c.SetTotal(1100) // of which 1,000 are read
		r := rand.New(rand.NewPCG(seed, 2))
		for epoch := 1; epoch <= 8; epoch++ {
			s.open(shuffled(r, train[:1000])...)
			if epoch == 4 {
				s.open(validation[:100]...)
			}
			if st := s.c.Stats(); st.Epoch != epoch || st.Sampled < 980 || epoch > 1 && st.Population != 1000 {
				t.Errorf("seed %d, epoch %d: %+v", seed, epoch, st)
			}
		}
	}
}

// TestAnyPattern: opens of any kind, in any order, break no promise.
func TestAnyPattern(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 8))
		n := 1 + r.IntN(400)
		cost := func(key uint64) int64 { return int64(key * key % 977) }
		for _, policy := range CachePolicies {
			s := simulate(t, policy, r.Int64N(200_000), r.IntN(300), cost)
			for range 60 {
				from, length := r.IntN(n), 1+r.IntN(n)
				keys := sequence(from, length)
				switch r.IntN(5) {
				case 0:
					s.c.SetTotal(r.IntN(2 * n))
				case 1:
					for range length {
						s.open(uint64(from + r.IntN(length)))
					}
				case 2:
					if s.held[uint64(from)] {
						s.drop(uint64(from))
					}
					s.c.Drop(uint64(from))
				case 3:
					s.open(keys...)
				default:
					s.open(shuffled(r, keys)...)
				}
			}
		}
	}
}
