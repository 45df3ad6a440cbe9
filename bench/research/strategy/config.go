package strategy

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/bench/loader"
	"github.com/pipefs/pipefs/bench/views"
	"github.com/pipefs/pipefs/transcode"
)

// Caches: what an epoch finds in memory.
const (
	NoCache     = "none"
	System      = "system"
	Application = "application"
)

// Compressions and Caches are all that there are.
var (
	Compressions = []string{None, Zstd, Zlib, Gzip}
	Caches       = []string{NoCache, System, Application}
)

// Config says what to measure, and how.
type Config struct {
	Registry *transcode.Registry
	Pipeline transcode.Pipeline
	// Root is the dataset. Files are the paths of the files that are read, below Root,
	// with slashes. Files that are no samples by their names are left out.
	Root  string
	Files []string
	Roles transcode.Roles
	// Dataset is how many samples the whole dataset has. Files may be a part of it.
	// Dataset decides whether what is stored fits in memory. 0 means the number of Files.
	Dataset int
	// Work is where a directory for what is stored is made, and removed at the end. It
	// should be on the disk where the results would be stored. Empty means the usual
	// directory for temporary files.
	Work string
	// Workers are the numbers of workers that are compared; none means one a core. There
	// are as many shards as the largest of them, and as many workers write them.
	Workers []int
	// Compressions of what is stored; none means None.
	Compressions []string
	// Caches that epochs are measured with; none means NoCache and System.
	Caches []string
	// Rounds is how often each strategy is measured, in random order with the others; 0
	// means 5.
	Rounds  int
	Seed    uint64 // of all orders
	Weights Weights
	// Progress hears what is being done; nil is nobody.
	Progress func(what string)
}

// complete sets defaults, and refuses values that make no sense.
func (c *Config) complete() error {
	if len(c.Workers) == 0 {
		c.Workers = []int{runtime.GOMAXPROCS(0)}
	}
	if len(c.Compressions) == 0 {
		c.Compressions = []string{None}
	}
	if len(c.Caches) == 0 {
		c.Caches = []string{NoCache, System}
	}
	if c.Rounds <= 0 {
		c.Rounds = 5
	}
	if c.Weights == (Weights{}) {
		c.Weights = DefaultWeights
	}
	if c.Progress == nil {
		c.Progress = func(string) {}
	}
	if err := errors.Join(checkWorkers(c.Workers), checkWords("compression", c.Compressions, Compressions), checkWords("cache", c.Caches, Caches), c.Weights.Check(), c.Roles.Check()); err != nil {
		return err
	}
	if len(views.Work(c.Pipeline)) == 0 {
		return fmt.Errorf("view %q has no steps: there is nothing to split; name a pipeline such as resize256-center", c.Pipeline)
	}
	return nil
}

func checkWorkers(workers []int) error {
	for _, n := range workers {
		if n < 1 || n > 1024 {
			return fmt.Errorf("%d workers; from 1 to 1024 are possible", n)
		}
	}
	return checkTwice("number of workers", workers)
}

func checkWords(what string, words, all []string) error {
	for _, w := range words {
		if !slices.Contains(all, w) {
			return fmt.Errorf("unknown %s %q; there are %q", what, w, all)
		}
	}
	return checkTwice(what, words)
}

func checkTwice[T comparable](what string, words []T) error {
	for i, w := range words {
		if slices.Contains(words[:i], w) {
			return fmt.Errorf("%s %v stands twice", what, w)
		}
	}
	return nil
}

// meter measures the cost of what this process does.
type meter struct {
	began time.Time
	cpu   float64
	disk  int64
}

// cost is wall time and CPU time, in seconds, and bytes that came from a disk.
type cost struct {
	seconds, cpu float64
	disk         int64
}

// begin collects garbage first, so that it is not counted.
func begin() meter {
	runtime.GC()
	return meter{time.Now(), loader.OwnCPU(), loader.OwnDisk()}
}

func (m meter) end() cost {
	// At least a nanosecond, so that rates are finite.
	seconds := max(time.Since(m.began), 1).Seconds()
	return cost{seconds, loader.OwnCPU() - m.cpu, loader.OwnDisk() - m.disk}
}

// writeBack writes back what is dirty in the file system of a directory, so that all of
// it can be dropped.
func writeBack(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := unix.Syncfs(int(d.Fd())); err != nil {
		return fmt.Errorf("writing back what is dirty below %s: %w", dir, err)
	}
	return nil
}

// RoomError is that the disk has no room for what would be stored.
type RoomError struct {
	Dir        string
	Need, Free int64 // bytes
}

func (e *RoomError) Error() string {
	return fmt.Sprintf("%.1f MB would be stored in %s, where only %.1f MB may be used; take fewer samples, or another directory to work in",
		float64(e.Need)/1e6, e.Dir, float64(e.Free)/1e6)
}

// checkRoom fails if there is no room for so many bytes. A hundredth of the disk, at most
// 1 GiB, stays free.
func checkRoom(dir string, need int64) error {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return fmt.Errorf("how much is free in %s: %w", dir, err)
	}
	free := int64(st.Bavail)*st.Bsize - min(int64(st.Blocks)*st.Bsize/100, 1<<30)
	if need > free {
		return &RoomError{dir, need, max(free, 0)}
	}
	return nil
}

// inMemory reports whether a directory lies in memory: then nothing is read from a disk.
func inMemory(dir string) bool {
	var st unix.Statfs_t
	if unix.Statfs(dir, &st) != nil {
		return false
	}
	return st.Type == unix.TMPFS_MAGIC || st.Type == unix.RAMFS_MAGIC
}
