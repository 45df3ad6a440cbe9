package cgroup

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

// ErrMemory marks work that takes more memory than this process can have.
var ErrMemory = errors.New("not enough memory")

// Budget bounds the memory of all work that a process does at once. Work that takes more than the
// budget runs alone, if there is memory for it.
type Budget struct {
	bytes int64 // of work that is done side by side
	limit int64 // on the memory of this process, and of those that share it
	taken *semaphore.Weighted
	free  func() int64 // bytes that the system would give this process now
	// patience is how long work that runs alone waits until memory that is in use is given back.
	patience time.Duration

	mu     sync.Mutex
	caches map[int]func() int64
	next   int
}

// most bounds the memory of work that is done side by side, whatever the machine has.
const most = 2 << 30

// Work is the budget of this process.
var Work = sync.OnceValue(func() *Budget {
	s, _ := Here() // without the table of mounts it is the machine's memory that counts
	return newBudget(s.Memory(), func() int64 { return s.Free() })
})

func newBudget(limit int64, free func() int64) *Budget {
	bytes := min(most, limit/4)
	return &Budget{bytes: bytes, limit: limit, taken: semaphore.NewWeighted(bytes), free: free, patience: 30 * time.Second, caches: map[int]func() int64{}}
}

// OnShort sets a function that drops what a cache holds, and returns how many bytes of it are in use.
// It is called where work needs the memory, until remove is.
func (b *Budget) OnShort(drop func() (used int64)) (remove func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := b.next
	b.next++
	b.caches[n] = drop
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.caches, n)
	}
}

// Take waits until there is memory for work that takes size bytes at most; give gives it back. Work
// must ask once, for all that it takes. The error is ErrMemory where it takes more than there is.
func (b *Budget) Take(ctx context.Context, size int64) (give func(), err error) {
	short := fmt.Errorf("%w: it takes %d MB, which is too much of the %d MB that the cgroup or the machine has: raise the limit of the cgroup, or end other processes", ErrMemory, size>>20, b.limit>>20)
	if size > b.limit-b.bytes {
		return nil, short
	}
	side := size <= b.bytes
	if side {
		if err := b.taken.Acquire(ctx, size); err != nil {
			return nil, err
		}
		// Caches may keep several results that are larger than they should be.
		if size <= b.limit/32 || size+b.limit/16 <= b.free() {
			return func() { b.taken.Release(size) }, nil
		}
		b.taken.Release(size)
	}
	if err := b.taken.Acquire(ctx, b.bytes); err != nil {
		return nil, err
	}
	give = func() { b.taken.Release(b.bytes) }
	for began := time.Now(); size+b.bytes > b.free(); {
		used, waited := b.drop(), time.Since(began)
		switch {
		case size+b.bytes <= b.free():
			return give, nil
		case side && (used < size || waited > b.patience/10): // the memory is not of caches
			return give, nil
		case ctx.Err() != nil:
			give()
			return nil, ctx.Err()
		case waited > b.patience:
			give()
			return nil, short
		}
		time.Sleep(b.patience / 100) // results may be read to their ends
	}
	return give, nil
}

// drop gives back all memory that nobody uses, and returns how much of the caches is in use.
func (b *Budget) drop() (used int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, drop := range b.caches {
		used += drop()
	}
	runtime.GC() // a sync.Pool keeps what it has for one collection
	debug.FreeOSMemory()
	return used
}

// Memory is how many bytes this process may use, with all that share them: the limit of the cgroup,
// or what the machine has.
func (s System) Memory() int64 {
	total := machine("MemTotal:")
	if limit, ok := s.MemoryLimit(); ok {
		return min(limit, total)
	}
	return total
}

// Free is how many of these the system would give this process now.
func (s System) Free() int64 {
	free := machine("MemAvailable:")
	if left, ok := least(s, Memory, leftOf); ok {
		return min(left, free)
	}
	return free
}

// machine is a number of /proc/meminfo, in bytes; the largest one where it is not there.
func machine(name string) int64 {
	if kb, ok := field("/proc/meminfo", name); ok {
		return kb << 10
	}
	return math.MaxInt64
}

// leftOf is what is left of the limit of a group, where its page cache can be reclaimed.
func leftOf(h Hierarchy, dir string) (int64, bool) {
	limit, ok := limitOf(h, dir)
	usage, prefix := "memory.usage_in_bytes", "total_"
	if h.V2 {
		usage, prefix = "memory.current", ""
	}
	used, has := number(dir + "/" + usage)
	for _, list := range []string{"active_file", "inactive_file"} {
		cached, _ := field(dir+"/memory.stat", prefix+list)
		used -= cached
	}
	return limit - used, ok && has
}
