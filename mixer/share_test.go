package mixer

import (
	"math"
	"math/rand/v2"
	"testing"
)

// both is a sample that is materialized and encoded, encoded one that is not.
var (
	both    = []Candidate{{Steps: 0, Bytes: 100}, {Steps: 2, Bytes: 600}}
	encoded = both[:1]
)

func isRaw(p Policy, key uint64, candidates []Candidate) bool {
	r := Request{Key: key, Steps: 2, Candidates: candidates}
	return candidates[p.Choose(r)].Steps == 2
}

// TestFixedAmongRanked: what is materialized is a share itself; of that, too, a
// share is taken.
func TestFixedAmongRanked(t *testing.T) {
	seqs := make([]int64, 20_000)
	for i := range seqs {
		seqs[i] = int64(i)
	}
	for _, stored := range []float64{0.01, 0.1, 0.5} {
		for _, share := range []float64{0.1, 0.5, 0.9} {
			both, whole := 0, 0
			for i, rank := range Ranks(0, seqs) {
				if rank < stored {
					both++
					if evenly(3<<32+uint64(i)) < share {
						whole++
					}
				}
			}
			if got := float64(whole) / float64(both); math.Abs(got-share) > 0.05 {
				t.Errorf("stored %v: %v of %d where %v was asked for", stored, got, both, share)
			}
		}
	}
}

func TestFixed(t *testing.T) {
	for _, share := range []float64{0, 0.1, 0.5, 0.9, 1} {
		p := Fixed(share)
		const first, count, window = 7 << 32, 10_000, 64
		chosen := make([]bool, count)
		for i := range chosen {
			chosen[i] = isRaw(p, first+uint64(i), both)
			if isRaw(p, first+uint64(i), both) != chosen[i] {
				t.Fatal("asked again it chose otherwise")
			}
			if isRaw(p, first+uint64(i), encoded) {
				t.Fatal("chose what is not there")
			}
		}
		for i := 0; i+window <= count; i++ {
			n := 0
			for _, c := range chosen[i : i+window] {
				if c {
					n++
				}
			}
			if math.Abs(float64(n)-share*window) > 2.5 {
				t.Fatalf("share %v: %d of the %d from %d on", share, n, window, i)
			}
		}
	}
}

// TestShareIsConstant: whatever the order of a loader, every batch has the same
// share, if the store has more materialized.
func TestShareIsConstant(t *testing.T) {
	const count, batch = 20_000, 64
	for _, test := range []struct{ stored, share, off float64 }{
		{1, 0.3, 1}, {1, 0, 0}, {1, 1, 0}, {0.6, 0.3, 9}, {0.8, 0.5, 9}, {0.4, 0.3, 14},
	} {
		random := rand.New(rand.NewPCG(3, 4))
		p := NewSteady(test.share)
		whole := make([]int, count+1)
		for i := range count {
			candidates := encoded
			if random.Float64() < test.stored {
				candidates = both
			}
			whole[i+1] = whole[i]
			if isRaw(p, uint64(i), candidates) {
				whole[i+1]++
			}
		}
		if mean := float64(whole[count]) / count; math.Abs(mean-test.share) > 0.02 {
			t.Errorf("stored %v: share %v where %v was asked for", test.stored, mean, test.share)
		}
		for i := batch; i <= count; i++ {
			if n := whole[i] - whole[i-batch]; math.Abs(float64(n)-batch*test.share) > test.off {
				t.Fatalf("stored %v, share %v: %d of the %d reads before read %d", test.stored, test.share, n, batch, i)
			}
		}
	}
}

func TestShareWithoutAChoice(t *testing.T) {
	p := NewSteady(0.5)
	onlyRaw := both[1:]
	for i := range uint64(1000) {
		if isRaw(p, i, encoded) || !isRaw(p, i, onlyRaw) {
			t.Fatal("chose what is not there")
		}
	}
	// Long runs without a choice are not made up for at length.
	for range 1000 {
		isRaw(p, 0, encoded)
	}
	n := 0
	for i := range uint64(20) {
		if isRaw(p, i, both) {
			n++
		}
	}
	if n > 10+maxOwed+1 {
		t.Errorf("%d of 20 materialized after a run of samples that are not", n)
	}
}

// network is a mount as a closed queue: readers that go round between a disk,
// which serves one after the other, and cores that decode. Times in seconds.
type network struct {
	readers, cores    int
	whole, file, work float64 // disk time of whole and of encoded; decoding time

	random *rand.Rand
	at     []reader
	turn   int
}

// reader is what a reader still needs of the stations.
type reader struct {
	disk, compute float64
	turn          int // who came first is served first
}

func (n *network) next(p Policy, r *reader) {
	*r = reader{disk: n.file, compute: n.work * (0.5 + n.random.Float64()), turn: n.turn}
	if isRaw(p, uint64(n.turn), both) {
		r.disk, r.compute = n.whole, 0
	}
	n.turn++
}

// run lets a policy choose for a while and returns reads per second and the load.
func (n *network) run(p Policy, seconds float64) (float64, Load) {
	for len(n.at) < n.readers {
		n.at = append(n.at, reader{})
		n.next(p, &n.at[len(n.at)-1])
	}
	const dt = 0.0005
	var diskBusy, computeBusy float64
	began := n.turn
	for range int(seconds / dt) {
		var first *reader
		computing := 0
		for i := range n.at {
			switch r := &n.at[i]; {
			case r.disk <= 0:
				computing++
			case first == nil || r.turn < first.turn:
				first = r
			}
		}
		if first != nil {
			diskBusy += dt
		}
		computeBusy += dt * min(1, float64(computing)/float64(n.cores))
		speed := min(1, float64(n.cores)/float64(max(computing, 1)))
		for i := range n.at {
			r := &n.at[i]
			switch {
			case r == first:
				r.disk -= dt
			case r.disk <= 0:
				r.compute -= dt * speed
			}
			if r.disk <= 0 && r.compute <= 0 {
				n.next(p, r)
			}
		}
	}
	return float64(n.turn-began) / seconds, Load{Disk: diskBusy / seconds, Compute: computeBusy / seconds}
}

// TestAdaptiveFindsTheBalance: from either end, and after one of two cores is
// taken away, within 5 seconds, to 0.9 of the best fixed share.
func TestAdaptiveFindsTheBalance(t *testing.T) {
	nets := map[string]network{
		"a slow disk":       {readers: 8, cores: 2, whole: 0.020, file: 0.003, work: 0.012},
		"a fast disk":       {readers: 8, cores: 2, whole: 0.002, file: 0.0005, work: 0.012},
		"a slow decoder":    {readers: 8, cores: 2, whole: 0.010, file: 0.002, work: 0.060},
		"only two readers":  {readers: 2, cores: 2, whole: 0.010, file: 0.002, work: 0.012},
		"nothing to decode": {readers: 8, cores: 2, whole: 0.010, file: 0.004, work: 0.001},
	}
	for name, net := range nets {
		for _, start := range []float64{0, 1} {
			net.random, net.at = rand.New(rand.NewPCG(5, 6)), nil
			p := NewAdaptive(start, 1)
			for _, cores := range []int{2, 1} {
				best := 0.0
				for share := range 11 {
					fixed := net
					fixed.cores, fixed.at = cores, nil
					rate, _ := fixed.run(NewSteady(float64(share)/10), 5)
					best = max(best, rate)
				}
				net.cores = cores
				for range 20 { // 5 seconds
					_, load := net.run(p, 0.25)
					p.Observe(load)
				}
				rate := 0.0
				for range 16 {
					r, load := net.run(p, 0.25)
					rate += r / 16
					p.Observe(load)
				}
				if rate < 0.9*best {
					t.Errorf("%s, from %v, %d cores: %.0f reads/s at share %.2f, the best fixed one has %.0f", name, start, cores, rate, p.Share(), best)
				}
			}
		}
	}
}

func TestAdaptiveIsBounded(t *testing.T) {
	a := NewAdaptive(0.9, 0.4)
	if a.Share() != 0.4 {
		t.Errorf("begins at %v where 0.4 is the most", a.Share())
	}
	for range 100 {
		a.Observe(Load{Compute: 7})
	}
	if a.Share() != 0.4 {
		t.Errorf("went to %v where 0.4 is the most", a.Share())
	}
	for range 100 {
		a.Observe(Load{Disk: 1})
	}
	if a.Share() != 0 {
		t.Errorf("went to %v where the disk is all that is busy", a.Share())
	}
	a.Set(0.2)
	a.lean = 0
	for range 100 {
		a.Observe(Load{})
		a.Observe(Load{Disk: 0.5, Compute: 0.55})
	}
	if a.Share() != 0.2 {
		t.Errorf("noise moved it to %v", a.Share())
	}
}

// TestPoliciesDoNotAllocate: a policy is asked on every read.
func TestPoliciesDoNotAllocate(t *testing.T) {
	r := Request{Steps: 2, Candidates: both}
	for _, p := range []Policy{Longest{}, Fixed(0.5), NewSteady(0.5), NewAdaptive(0.5, 1)} {
		if allocs := testing.AllocsPerRun(100, func() { p.Choose(r) }); allocs != 0 {
			t.Errorf("%T: %v allocations a choice", p, allocs)
		}
	}
}
