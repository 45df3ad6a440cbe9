package shard

import (
	"os"
	"regexp"
	"runtime/debug"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/store"
)

// TestMillionFiles measures what planning takes: ten times the files take no more memory, in directories
// of the same length.
func TestMillionFiles(t *testing.T) {
	if !testenv.Soak() {
		t.Skip("PIPEFS_SOAK=1 plans 10 million files")
	}
	for _, order := range []store.Order{store.OrderPath, store.OrderShuffle} {
		for _, dirs := range []int{1000, 10_000} {
			debug.FreeOSMemory()
			testenv.Must(t, os.WriteFile("/proc/self/clear_refs", []byte("5"), 0))
			m := making(t, made{dirs: dirs, files: 1000})
			m.Options.Order, m.ShardBytes = order, 256e6
			began := time.Now()
			p := mustMake(t, m)
			t.Logf("%s: %d files, %d shards: plan of %d bytes, %v, peak RSS %d MB", order, p.Files, p.Shards, p.info.Size, time.Since(began).Round(time.Second), peak(t)>>20)
			if n := peak(t); n > 256<<20 {
				t.Errorf("%d bytes of memory", n)
			}
		}
	}
}

// peak is the most memory that this process had, in bytes.
func peak(t *testing.T) int64 {
	text, err := os.ReadFile("/proc/self/status")
	testenv.Must(t, err)
	kb, err := strconv.ParseInt(string(regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(text)[1]), 10, 64)
	testenv.Must(t, err)
	return kb << 10
}

// busyTime is what processors have done for this process.
func busyTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
