package index

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pipefs/pipefs/internal/testenv"
)

// watchMemory gives the most memory of its own that a process had, in kB, when it has ended. The pages
// of tables that it has mapped are the page cache's.
func watchMemory(pid int) <-chan int64 {
	most := make(chan int64, 1)
	go func() {
		peak := int64(0)
		for ; ; time.Sleep(2 * time.Millisecond) {
			status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
			_, rest, ok := strings.Cut(string(status), "RssAnon:")
			if !ok {
				most <- peak
				return
			}
			now := int64(0)
			_, _ = fmt.Sscan(rest, &now)
			peak = max(peak, now)
		}
	}()
	return most
}

// BenchmarkIndex: keys like those of ImageNet, values of 180 bytes. PIPEFS_KEYS says how many;
// 1,280,000 are those of ImageNet.
func BenchmarkIndex(b *testing.B) {
	n, err := strconv.Atoi(os.Getenv("PIPEFS_KEYS"))
	if err != nil {
		n = 100_000
	}
	key := func(i int) []byte {
		return fmt.Appendf(nil, "train/n%08d\x00n%08d_%07d.JPEG", i/1280, i/1280, i%1280)
	}
	dir := filepath.Join(b.TempDir(), "i")
	value := make([]byte, 180)
	var peak atomic.Int64
	b.Run("build", func(b *testing.B) {
		for b.Loop() {
			w, err := Create(b.Context(), dir, "this", int64(n)*240)
			testenv.Must(b, err)
			most := watchMemory(w.child.Process.Pid)
			for i := range n {
				value[i%180]++
				testenv.Must(b, w.Add(key(i), value))
			}
			testenv.Must(b, w.Finish(nil))
			peak.Store(max(peak.Load(), <-most))
			b.ReportMetric(float64(peak.Load())/1e3, "MB-peak")
		}
	})
	b.Run("open", func(b *testing.B) {
		for b.Loop() {
			x, err := Open(dir, "this")
			testenv.Must(b, err)
			testenv.Must(b, x.Close())
		}
	})
	x, err := Open(dir, "this")
	testenv.Must(b, err)
	defer x.Close()
	var room []byte
	ask := func(name string, key func(k int) []byte, there bool) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for k := 0; b.Loop(); k++ {
				v, err := x.Get(room[:0:cap(room)], key(k))
				if err != nil || (v != nil) != there {
					b.Fatal(v, err)
				}
				if v != nil {
					room = v
				}
			}
		})
	}
	ask("get", func(int) []byte { return key(rand.IntN(n)) }, true)
	ask("in-order", func(k int) []byte { return key(k % n) }, true)
	ask("absent", func(int) []byte { return append(key(rand.IntN(n)), 'x') }, false)
	b.Run("walk", func(b *testing.B) {
		for b.Loop() {
			testenv.Must(b, x.Walk(nil, func(_, _ []byte) error { return nil }))
		}
	})
}
