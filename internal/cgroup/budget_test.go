package cgroup

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pipefs/pipefs/internal/testenv"
)

func TestBudget(t *testing.T) {
	t.Parallel()
	var free atomic.Int64
	free.Store(6400)
	b := newBudget(6400, free.Load)
	b.patience = time.Second
	take := func(size int64) func() {
		t.Helper()
		give, err := b.Take(t.Context(), size)
		testenv.Must(t, err)
		return give
	}
	if _, err := b.Take(t.Context(), 4801); !errors.Is(err, ErrMemory) {
		t.Errorf("more than there can ever be: %v", err)
	}
	one, two := take(1000), take(600)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, size := range []int64{1, 4000} {
		if _, err := b.Take(ended, size); !errors.Is(err, context.Canceled) {
			t.Errorf("%d beside all of the budget: %v", size, err)
		}
	}
	// what is large runs alone, and those who come later behind it
	order := make(chan int64, 2)
	large := make(chan func())
	go func() {
		give := take(4000)
		order <- 4000
		large <- give
	}()
	one()
	select {
	case <-order:
		t.Error("large work runs beside other work")
	default:
	}
	two()
	give := <-large
	go func() {
		defer take(1)()
		order <- 1
	}()
	give()
	if a, b := <-order, <-order; a != 4000 || b != 1 {
		t.Errorf("order %d, %d", a, b)
	}
	// caches give way
	dropped := 0
	remove := b.OnShort(func() int64 { dropped++; free.Store(6000); return 0 })
	for size, want := range map[int64]int{100: 0, 300: 1, 1600: 1, 4000: 1} {
		free.Store(500)
		dropped = 0
		if take(size)(); dropped != want {
			t.Errorf("%d of 500 bytes: caches dropped %d times", size, dropped)
		}
	}
	remove()
	dropped = 0
	free.Store(500)
	take(1600)() // as ever, where others take it all
	if _, err := b.Take(t.Context(), 4000); !errors.Is(err, ErrMemory) || dropped != 0 {
		t.Errorf("what is in use for ever: %v, dropped %d times", err, dropped)
	}
	take(1600)()
	// what readers of a cache use is waited for, and not for ever
	for _, frees := range []bool{true, false} {
		dropped = 0
		free.Store(500)
		remove := b.OnShort(func() int64 {
			if dropped++; frees && dropped == 2 {
				free.Store(6000)
			}
			return 1600
		})
		if take(1600)(); dropped < 2 || frees != (dropped == 2) {
			t.Errorf("what is in use, and given back %t: caches dropped %d times", frees, dropped)
		}
		remove()
	}
	if !b.taken.TryAcquire(b.bytes) {
		t.Error("not all was given back")
	}
}
