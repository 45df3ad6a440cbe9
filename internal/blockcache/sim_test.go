package blockcache

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/store/blob"
)

// simPlace is a place that takes its time, and fails now and then.
type simPlace struct {
	blob.Objects
	s       *testenv.Sim
	failing bool
}

var errSim = errors.New("the place is out of order")

func (*simPlace) String() string { return "memory:" }

func (p *simPlace) ReadAt(ctx context.Context, name string, v blob.Version, b []byte, off int64) error {
	p.s.Sleep(3)
	if p.failing && p.s.OneIn(6) {
		return errSim
	}
	content(name+string(v), b, off)
	return ctx.Err()
}

// TestSimulation: readers of objects through two caches in one directory, as of two processes, while blocks are fetched
// ahead and forgotten, requests fail, and files are damaged. Whoever gets bytes gets the right ones, and
// no memory stays taken.
func TestSimulation(t *testing.T) {
	testenv.Simulate(t, 25, func(s *testenv.Sim) {
		dir := s.TempDir()
		place := &simPlace{s: s, failing: s.OneIn(2)}
		var caches [2]*Cache
		for i := range caches {
			c, err := Open(dir, Options{MaxBytes: 2 << 20, MemoryBytes: mostUnits * unitBytes})
			testenv.Must(s.T, err)
			c.recentMost = 100_000
			caches[i] = c
		}
		sizes := []int64{1000, 3*unitBytes + 5, 100_000, 700_000, 3 << 20}
		for i := range 4 {
			s.Go(func() {
				for range 10 {
					s.Sleep(3)
					n := s.IntN(len(sizes))
					o := caches[i%2].Object(place, blob.Info{Name: string(rune('a' + n)), Size: sizes[n], Version: "1"})
					if s.OneIn(2) {
						o.Scattered()
					}
					off, length := int64(s.IntN(int(sizes[n]))), int64(1+s.IntN(80_000))
					switch s.IntN(5) {
					case 0:
						o.Forget(off, length)
					case 1:
						o.Fetch(off, length)
					}
					for range 1 + s.IntN(3) {
						if err := check(o, off, length); err != nil && !(place.failing && errors.Is(err, errSim)) {
							s.Error(err)
						}
						off += length
						if off >= sizes[n] {
							break
						}
					}
				}
			})
		}
		s.Go(func() {
			for round := range 8 {
				s.Sleep(3)
				if s.OneIn(3) {
					time.Sleep(refreshEvery)
				}
				vandal(dir, rand.New(rand.NewPCG(s.Seed, uint64(round))))
			}
		})
		s.Wait()
		time.Sleep(time.Minute)
		for _, c := range caches {
			testenv.Must(s.T, c.Close())
			if !c.memory.TryAcquire(mostUnits*unitBytes) || !c.flying.TryAcquire(aheadRequests) {
				s.Error("memory or requests stay taken when nobody reads")
			}
			listed := map[*flight]bool{}
			for _, b := range c.all() {
				for _, flights := range b.flights {
					for _, f := range flights {
						listed[f] = true
					}
				}
			}
			if len(listed) > len(c.recent) {
				s.Errorf("%d requests are remembered, of which %d could not be kept", len(listed), len(c.recent))
			}
		}
	})
}
