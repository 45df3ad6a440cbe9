package epoch

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// sampler is what DistributedSampler of PyTorch does to a list of indices, word for word.
func sampler(indices []int, world, rank int, drop bool) (got []int) {
	n := len(indices)
	per := (n + world - 1) / world
	if drop && n%world != 0 {
		per = (n - world + world - 1) / world
		if n < world {
			per = 0
		}
	}
	total := per * world
	if !drop {
		padding := total - n
		if padding <= n {
			indices = append(slices.Clip(indices), indices[:padding]...)
		} else {
			indices = slices.Repeat(indices, 1+(padding+n-1)/n)[:total]
		}
	} else {
		indices = indices[:total]
	}
	for i := rank; i < total; i += world {
		got = append(got, indices[i])
	}
	return got
}

// TestShares compares shares with DistributedSampler and, in batches, with DataLoader.
func TestShares(t *testing.T) {
	for n := 1; n < 40; n++ {
		for world := 1; world < 12; world++ {
			for batch := 1; batch < 9; batch++ {
				for _, drop := range []bool{false, true} {
					padded, dropped := -n, n
					for rank := range world {
						s := share{n: n, world: world, rank: rank, batch: batch, drop: drop}
						indices := make([]int, n)
						for i := range indices {
							indices[i] = i
						}
						var want [][]int
						for b := range slices.Chunk(sampler(indices, world, rank, drop), batch) {
							if !drop || len(b) == batch {
								want = append(want, b)
							}
						}
						var got [][]int
						for k := range s.batches() {
							var b []int
							for i := range s.size(k) {
								b = append(b, s.at(k*batch+i))
							}
							got = append(got, b)
							padded, dropped = padded+len(b), dropped-len(b)
						}
						if fmt.Sprint(got) != fmt.Sprint(want) {
							t.Fatalf("%+v: %v, want %v", s, got, want)
						}
						if rank == world-1 && (s.padded() != max(padded, 0) || s.dropped() != max(dropped, 0)) {
							t.Fatalf("%+v: %d padded and %d dropped, want %d and %d", s, s.padded(), s.dropped(), padded, dropped)
						}
					}
				}
			}
		}
	}
	if s := (share{world: 2, batch: 4}); s.batches() != 0 || s.padded() != 0 {
		t.Errorf("of no samples: %d batches", s.batches())
	}
}

// TestOrder wants a permutation that depends on all that it should, and is always the same.
func TestOrder(t *testing.T) {
	seen := map[string]bool{}
	keys := [][4]int{{0, 0, 100, 0}, {1, 0, 100, 0}, {0, 1, 100, 0}, {0, 0, 101, 0}, {0, 0, 100, 64}, {1, 0, 100, 64}, {0, 1, 100, 64}, {0, 0, 100, 65}, {0, 0, 101, 64}, {0, 0, 100, 100}, {0, 0, 97, 64}}
	for _, key := range keys {
		got := order(uint64(key[0]), uint64(key[1]), key[2], key[3])
		seen[fmt.Sprint(got[:90])] = true
		slices.Sort(got)
		for i, sample := range got {
			if int(sample) != i {
				t.Fatalf("%v: %v", key, got)
			}
		}
	}
	if len(seen) != len(keys) {
		t.Error("orders are the same")
	}
	// These must never change: trainings go on where they were.
	for key, want := range map[[2]int]string{{1000, 0}: "1777ef9d78029580", {64, 64}: "91dcb3d547bb654e", {3200, 320}: "745c80b871470c54"} {
		sum := sha256.Sum256(fmt.Append(nil, order(7, 3, key[0], key[1])))
		if got := hex.EncodeToString(sum[:8]); got != want {
			t.Errorf("%v: another order than ever: %s", key, got)
		}
	}
}

func TestPath(t *testing.T) {
	for text, want := range map[string]Path{
		"7/0/8/3/64/npy":                                                  {Seed: 7, World: 8, Rank: 3, Batch: 64, View: "npy"},
		"0/18446744073709551615/1/0/1drop/x":                              {Epoch: 1<<64 - 1, World: 1, Batch: 1, Drop: true, View: "x"},
		"7/0/1/0/64-window4096/npy":                                       {Seed: 7, World: 1, Batch: 64, Window: 4096, View: "npy"},
		"7/0/1/0/64drop-window64/npy":                                     {Seed: 7, World: 1, Batch: 64, Drop: true, Window: 64, View: "npy"},
		"7/0/1/0/64-from12800/npy":                                        {Seed: 7, World: 1, Batch: 64, From: 12800, View: "npy"},
		"7/0/1/0/64drop-window64-from1/npy":                               {Seed: 7, World: 1, Batch: 64, Drop: true, Window: 64, From: 1, View: "npy"},
		"7/0/1/0/64/npy/train/a":                                          {Seed: 7, World: 1, Batch: 64, View: "npy", Of: "train/a"},
		"7/0/1048576/1048575/1048576-window1073741824-from4294967296/npy": {Seed: 7, World: maxWorld, Rank: maxWorld - 1, Batch: maxBatch, Window: maxInt, From: maxFrom, View: "npy"},
	} {
		for n := range numbers + 2 {
			parts := split(text)[:n]
			if _, err := ParsePath(parts); err != nil || Complete(parts) != (n > numbers) {
				t.Errorf("%v: %v", parts, err)
			}
		}
		got, err := ParsePath(split(text))
		if err != nil || got != want || got.String() != Dir+"/"+text {
			t.Errorf("%s: %+v, %v, %s", text, got, err, got)
		}
	}
	for _, text := range []string{"x", "-1", "07", "", "7/x", "7/0/0", "7/0/2/2", "7/0/1/1", "7/0/1/0/0", "7/0/1/0/drop", "7/0/1/0/64dropped", "7/0/1/0/064", "7/0/1/0/64-window", "7/0/1/0/64-window63", "7/0/1/0/64-window0100", "7/0/1/0/64-window100drop", "7/0/1/0/64window100", "7/0/1/0/-window100", "7/0/1/0/64-from", "7/0/1/0/64-from0", "7/0/1/0/64-from-1", "7/0/1/0/64-from012", "7/0/1/0/64-from1-window64", "7/0/1/0/64-from1drop", "7/0/1/0/64-from4294967297", "7/0/1/0/64-window1073741825", "7/0/1048577", "7/0/1/0/1048577", "7/0/1/0/0-from1", "7/0/4294967297", "18446744073709551616"} {
		if got, err := ParsePath(split(text)); err == nil {
			t.Errorf("%q: %+v", text, got)
		}
	}
}

// history is a training that is killed and goes on, on other machines and in other batches, until its epoch is over.
// A state is the number of samples that were consumed. It returns how often the training was killed, how many samples were
// left out, and an error where a sample comes too often or not at all.
func history(seed uint64) (kills, dropped int, err error) {
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
		from += steps * world * batch
	}
}

// TestHistories wants every sample once, whatever the ranks and batches of a training are when it goes on.
func TestHistories(t *testing.T) {
	const histories = 10_000
	killed, dropped := 0, 0
	for seed := range uint64(histories) {
		kills, n, err := history(seed)
		if err != nil {
			t.Fatalf("history %d: %v", seed, err)
		}
		killed += kills
		dropped += n
	}
	if killed < histories/2 || dropped == 0 {
		t.Errorf("%d kills, %d samples left out", killed, dropped)
	}
}
