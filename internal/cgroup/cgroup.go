// Package cgroup finds the control groups of this process, in both versions, and the limits
// that they set, and keeps the work of this process within the memory that there is. For
// measurements it makes a machine small: a slow disk, little memory.
//
// # Nouns
//
// A [Controller] is a part of the kernel that limits something. A [Hierarchy] is a mounted
// tree of groups, which in version 1 has some of the controllers, and in version 2 all. The
// [System] is the files in which the kernel describes them. A [Budget] is memory that all work
// of a process shares. A [Group] is a group that holds this process and all that it starts from
// then on, daemons included, and keeps them together within [Limits]; it needs root. A process
// that was started before is not in it. What is in the page cache already is not limited: drop
// it first.
package cgroup

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/pipefs/pipefs/internal/mounts"
)

// Controller is a part of the kernel that limits something, by its names in the two
// versions.
type Controller struct{ What, V1, V2 string }

// The controllers.
var (
	Reads  = Controller{"reads", "blkio", "io"}
	Memory = Controller{"memory", "memory", "memory"}
	CPU    = Controller{"processors", "cpu", "cpu"}
)

// ErrNone marks a limit for which there is no group on this machine, or none that this user
// may use.
var ErrNone = errors.New("no cgroup can be used for it")

// System is the files in which the kernel describes cgroups.
type System struct {
	Mounts []*mounts.Mount
	Self   string // the groups of a process, such as /proc/self/cgroup
}

// Here is the system of this process.
func Here() (System, error) {
	table, err := mounts.Within("/")
	return System{Mounts: table, Self: "/proc/self/cgroup"}, err
}

// Hierarchy is a tree of groups.
type Hierarchy struct {
	Root string
	V2   bool
}

// Hierarchy finds the tree that has a controller. A controller is in one version at a
// time.
func (s System) Hierarchy(c Controller) (Hierarchy, error) {
	unified := ""
	for _, m := range s.Mounts {
		switch {
		case m.FSType == "cgroup" && slices.Contains(strings.Split(m.VFSOptions, ","), c.V1):
			return Hierarchy{Root: m.Mountpoint}, nil
		case m.FSType == "cgroup2":
			unified = m.Mountpoint
		}
	}
	if unified != "" {
		b, err := os.ReadFile(filepath.Join(unified, "cgroup.controllers"))
		if err == nil && slices.Contains(strings.Fields(string(b)), c.V2) {
			return Hierarchy{Root: unified, V2: true}, nil
		}
	}
	return Hierarchy{}, fmt.Errorf("no hierarchy is mounted that has it: %w", ErrNone)
}

// Group is the group that the process is in, from lines of NUMBER:CONTROLLERS:PATH. The
// line of version 2 has no controllers.
func (s System) Group(h Hierarchy, c Controller) (string, error) {
	b, err := os.ReadFile(s.Self)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(b)) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(parts) == 3 && (h.V2 && parts[1] == "" || !h.V2 && slices.Contains(strings.Split(parts[1], ","), c.V1)) {
			return parts[2], nil
		}
	}
	return "", fmt.Errorf("%s does not tell the group of this process: %w", s.Self, ErrNone)
}

// Dir is the directory of the group that the process is in. A container sees its own group
// as the root, but may be told the path outside.
func (s System) Dir(h Hierarchy, c Controller) (string, error) {
	group, err := s.Group(h, c)
	if err != nil {
		return "", err
	}
	dir := filepath.Join(h.Root, group)
	if _, err := os.Stat(dir); err != nil {
		return h.Root, nil
	}
	return dir, nil
}

// MemoryLimit is how many bytes the processes of the group, and of those around it, may
// use; ok is false where there is no limit.
func (s System) MemoryLimit() (limit int64, ok bool) {
	return least(s, Memory, limitOf)
}

func limitOf(h Hierarchy, dir string) (int64, bool) {
	if h.V2 {
		return number(filepath.Join(dir, "memory.max"))
	}
	// without a limit it is the largest number of whole pages
	n, ok := number(filepath.Join(dir, "memory.limit_in_bytes"))
	return n, ok && n < 1<<62
}

// CPULimit is how many processors the processes of the group, and of those around it, may
// use together; ok is false where there is no limit. Which processors they may use is
// another matter, see sched_getaffinity(2).
func (s System) CPULimit() (processors float64, ok bool) {
	return least(s, CPU, func(h Hierarchy, dir string) (float64, bool) {
		var quota, period int64
		if h.V2 {
			text, err := os.ReadFile(filepath.Join(dir, "cpu.max"))
			if _, bad := fmt.Sscan(string(text), &quota, &period); err != nil || bad != nil {
				return 0, false // "max", or the root
			}
		} else {
			quota, _ = number(filepath.Join(dir, "cpu.cfs_quota_us"))
			period, _ = number(filepath.Join(dir, "cpu.cfs_period_us"))
		}
		return float64(quota) / float64(period), quota > 0 && period > 0
	})
}

// least asks the group of a controller and all groups around it for a limit.
func least[T int64 | float64](s System, c Controller, ask func(h Hierarchy, dir string) (T, bool)) (limit T, ok bool) {
	h, err := s.Hierarchy(c)
	if err != nil {
		return 0, false
	}
	dir, err := s.Dir(h, c)
	if err != nil {
		return 0, false
	}
	for ; mounts.Below(dir, h.Root); dir = filepath.Dir(dir) {
		if n, has := ask(h, dir); has && (!ok || n < limit) {
			limit, ok = n, true
		}
		if dir == h.Root {
			break
		}
	}
	return limit, ok
}

// number reads a file that holds one.
func number(name string) (int64, bool) {
	b, err := os.ReadFile(name)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	return n, err == nil
}

// Field reads the number behind a word at the beginning of a line of a file, as in /proc/meminfo.
func Field(name, word string) (int64, bool) {
	b, _ := os.ReadFile(name)
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == word {
			n, err := strconv.ParseInt(f[1], 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}

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
	if kb, ok := Field("/proc/meminfo", name); ok {
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
		cached, _ := Field(dir+"/memory.stat", prefix+list)
		used -= cached
	}
	return limit - used, ok && has
}
