package epoch

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
)

// history is a training that is killed and goes on, on other machines and in other batches, until its epoch is over.
// A state is the number of samples that were consumed; off is an error in the first one, in batches of all ranks. It
// returns how often the training was killed, how many samples were left out, and an error where a sample comes too
// often or not at all.
func history(seed uint64, off int) (kills, dropped int, err error) {
	random := rand.New(rand.NewPCG(seed, 0))
	n := 1 + random.IntN(60)
	order := order(random.Uint64(), 0, n, 0)
	times := make([]int, n)
	for from := 0; ; kills++ {
		world, batch, drop := 1+random.IntN(6), 1+random.IntN(7), random.IntN(4) == 0
		steps := -1
		if kills < 4 {
			steps = random.IntN(6)
		}
		padded := 0
		var last share
		for rank := range world {
			last = share{n: n, world: world, rank: rank, batch: batch, from: from, drop: drop}
			if steps < 0 || steps > last.batches() {
				steps = last.batches()
			}
			for k := range steps {
				for i := range last.size(k) {
					if k == last.batches()-1 && i >= last.size(k)-last.paddedOfRank() {
						padded++
						continue
					}
					times[order[last.at(k*batch+i)]]++
				}
			}
		}
		over := steps == last.batches()
		if over && (padded != last.padded() || padded >= world) || !over && padded > 0 {
			return kills, 0, fmt.Errorf("%+v: %d samples are padded", last, padded)
		}
		if over {
			for place, sample := range order {
				want := 1
				if place >= n-last.dropped() {
					want = 0
				}
				if times[sample] != want {
					return kills, 0, fmt.Errorf("%+v: sample %d of the order came %d times", last, place, times[sample])
				}
			}
			return kills, last.dropped(), nil
		}
		from += (steps + off) * world * batch
		if from < 0 || from > n {
			return kills, 0, errors.New("the state lies outside of the epoch")
		}
		off = 0
	}
}

// TestHistories wants every sample once, whatever the ranks and batches of a training are when it goes on, and a state
// that is one batch off to be noticed.
func TestHistories(t *testing.T) {
	const histories = 10_000
	killed, dropped := 0, 0
	for seed := range uint64(histories) {
		kills, n, err := history(seed, 0)
		if err != nil {
			t.Fatalf("history %d: %v", seed, err)
		}
		killed += kills
		dropped += n
		for _, off := range []int{-1, 1} {
			if _, _, err := history(seed, off); err == nil && kills > 0 {
				t.Fatalf("history %d: nobody notices a state that is %d batch off", seed, off)
			}
		}
	}
	if killed < histories/2 || dropped == 0 {
		t.Errorf("%d kills, %d samples left out", killed, dropped)
	}
}
