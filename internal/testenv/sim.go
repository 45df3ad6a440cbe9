package testenv

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Sim is one run of a simulation: its random choices, which the seed decides.
type Sim struct {
	*testing.T
	Seed uint64

	sync.WaitGroup

	random uint64
}

// Simulate runs a simulation once for each of so many seeds, in a bubble of [synctest]: time is fake, and a
// reader who waits for ever is an error. Goroutines take turns on one thread, in an order that the calls of
// [Sim.Yield] and [Sim.Sleep] disturb. The first seed that fails ends the test, which says how to repeat it.
//
// PIPEFS_SEEDS sets the number of seeds, PIPEFS_SEED runs that one. Under the race detector the runtime draws, too, who
// runs next: one run of a seed may pass and the next one fail.
func Simulate(t *testing.T, seeds uint64, run func(s *Sim)) {
	t.Helper()
	first := uint64(1)
	number := func(name string, to *uint64) bool {
		text := os.Getenv(name)
		if text == "" {
			return false
		}
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		*to = n
		return true
	}
	if Soak() { // others each time
		first, seeds = rand.Uint64N(1<<48), 500
	}
	number("PIPEFS_SEEDS", &seeds)
	if number("PIPEFS_SEED", &first) {
		seeds = 1
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for seed := first; seed-first < seeds && !t.Failed(); seed++ {
		simulate(t, seed, run)
	}
	Proved(t, "seeds", int64(seeds))
}

func simulate(t *testing.T, seed uint64, run func(s *Sim)) {
	repeat := fmt.Sprintf("repeat with: PIPEFS_SEED=%d go test -race -count 20 -run '^%s$'", seed, t.Name())
	// Who waits for a mutex does not count as waiting: synctest does not see that all do.
	hang := time.AfterFunc(5*time.Minute, func() {
		debug.SetTraceback("all")
		panic("the simulation hangs; " + repeat)
	})
	defer func() {
		hang.Stop()
		if cause := recover(); cause != nil {
			all := make([]byte, 1<<20)
			t.Errorf("%v\n%s", cause, all[:runtime.Stack(all, true)])
		}
		if t.Failed() {
			t.Log(repeat)
		}
	}()
	synctest.Test(t, func(t *testing.T) {
		s := &Sim{T: t, Seed: seed, random: seed * golden}
		defer s.caught()
		run(s)
	})
}

// Go runs one of the goroutines of the test, for which Wait waits.
func (s *Sim) Go(do func()) {
	s.WaitGroup.Go(func() {
		defer s.caught()
		do()
	})
}

// caught makes a panic an error of the test, which tells the seed.
func (s *Sim) caught() {
	if cause := recover(); cause != nil {
		s.Errorf("panic: %v\n%s", cause, debug.Stack())
	}
}

const golden = 0x9e3779b97f4a7c15

// IntN draws one of the numbers from 0 to n-1. Goroutines share the numbers, on the one thread that they have, but no
// lock and no atomic variable: the race detector would take that for the order in which the goroutines run.
//
//go:norace
func (s *Sim) IntN(n int) int {
	s.random += golden
	z := s.random // splitmix64
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return int((z ^ z>>31) % uint64(n))
}

// OneIn draws whether something happens that does once in n times.
func (s *Sim) OneIn(n int) bool { return s.IntN(n) == 0 }

// Yield lets other goroutines run, or not. It may be called with locks held.
func (s *Sim) Yield() {
	for range s.IntN(4) {
		runtime.Gosched()
	}
}

// Sleep is Yield, or waits for up to so many milliseconds. These are whole ones, so that many goroutines go on at
// the same time. No lock may be held: time stands still while others wait for one.
func (s *Sim) Sleep(most int) {
	if s.OneIn(2) {
		s.Yield()
		return
	}
	time.Sleep(time.Duration(s.IntN(most+1)) * time.Millisecond)
}
