package serve

import (
	"context"

	"golang.org/x/sync/semaphore"
)

// crew bounds how many results are made at once: a place for each, and the memory for
// their sources and pixels.
type crew struct {
	places *semaphore.Weighted
	memory *semaphore.Weighted
	bytes  int64 // of memory
	// compute is the crew of which computing takes a place as well; nil where it does not.
	compute *crew
}

func newCrew(places int, bytes int64) *crew {
	return &crew{places: semaphore.NewWeighted(int64(places)), memory: semaphore.NewWeighted(bytes), bytes: bytes}
}

// join waits for a place; leave gives it back. The place comes before the memory, always
// in this order.
func (c *crew) join(ctx context.Context) error { return c.places.Acquire(ctx, 1) }
func (c *crew) leave()                         { c.places.Release(1) }

// take waits for size bytes of memory, and returns how many give has to give back:
// what is larger than all of it takes all of it, and is alone.
func (c *crew) take(ctx context.Context, size int64) (taken int64, err error) {
	taken = min(size, c.bytes)
	return taken, c.memory.Acquire(ctx, taken)
}

func (c *crew) give(taken int64) { c.memory.Release(taken) }

// Loading is how many samples are loaded and computed at once by so many workers, where they
// are many and are known ahead of time: while some are computed, others are read.
func Loading(workers int) int { return 2*workers + 2 }
