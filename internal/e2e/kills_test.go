package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/testenv"
)

// childrenOf are the processes that a process has started.
func childrenOf(pid int) (found []int) {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, task := range tasks {
		b, _ := os.ReadFile(task)
		for _, text := range strings.Fields(string(b)) {
			if n, err := strconv.Atoi(text); err == nil {
				found = append(found, n)
			}
		}
	}
	return found
}

// TestSupervisedKills kills daemons, also ones that are just starting, while 64 readers read and the dataset changes, so that
// daemons tell the kernel of changes. No reader gets an error or a wrong byte. Readers of one death wait for a second at most.
func TestSupervisedKills(t *testing.T) {
	s := newSupervised(t, "--deaths", "1000000")
	kills := int64(3)
	if testenv.Soak() {
		kills = 200
	}
	want := map[string][]byte{}
	var names []string
	for _, view := range []string{"original", "scan5", "bmp"} {
		found, err := filepath.Glob(s.path(view, "*/*"))
		testenv.Must(t, err)
		for _, name := range found {
			b, err := os.ReadFile(name)
			testenv.Must(t, err)
			want[name], names = b, append(names, name)
		}
	}
	class, err := os.ReadDir(s.dataset)
	testenv.Must(t, err)
	live := filepath.Join(class[0].Name(), "live.txt")
	seed := testenv.Seed(t)
	var reads, done, longest atomic.Int64
	var stop atomic.Bool
	var all sync.WaitGroup
	defer all.Wait()
	defer stop.Store(true)
	for i := range 64 {
		all.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(i)))
			buf := make([]byte, 60_000)
			for !stop.Load() {
				before, began := done.Load(), time.Now()
				err := func() error {
					if r.IntN(20) == 0 { // the kernel keeps the name that changes
						_, _ = os.Stat(s.path("bmp", live))
						if _, err := os.ReadDir(s.path("bmp", class[0].Name())); !errors.Is(err, unix.ESTALE) { // it changed while it was listed
							return err
						}
						return nil
					}
					name := names[r.IntN(len(names))]
					f, err := os.Open(name)
					if err != nil {
						return err
					}
					defer f.Close()
					_ = unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
					off := r.IntN(len(want[name]))
					n := min(len(buf), len(want[name])-off)
					if _, err := f.ReadAt(buf[:n], int64(off)); err != nil {
						return err
					}
					if !bytes.Equal(buf[:n], want[name][off:off+n]) {
						return fmt.Errorf("%s: wrong bytes", name)
					}
					return nil
				}()
				if err != nil {
					t.Error(err)
					return
				}
				if took := time.Since(began).Nanoseconds(); done.Load()-before <= 1 {
					for old := longest.Load(); took > old && !longest.CompareAndSwap(old, took); old = longest.Load() {
					}
				}
				reads.Add(1)
			}
		})
	}
	all.Go(func() {
		for n := 0; !stop.Load(); n++ {
			switch path := filepath.Join(s.dataset, live); n % 3 {
			case 0:
				_ = os.WriteFile(path, fmt.Append(nil, n), 0o644)
			case 1:
				_ = os.Rename(path, path+".txt")
			default:
				_ = os.Remove(path + ".txt")
			}
			time.Sleep(2 * time.Millisecond)
		}
	})
	r := rand.New(rand.NewPCG(seed, 99))
	supervisor := s.stats().Supervised.PID
	for early := false; done.Load() < kills && !t.Failed(); {
		before := reads.Load() + int64(64+r.IntN(300))
		if early { // 64 reads may have been answered before the death
			before = 0
		}
		testenv.EventuallyIs(t, "readers go on", func() bool { return reads.Load() >= before || t.Failed() })
		var pids []int
		testenv.EventuallyIs(t, "a daemon is there", func() bool { pids = childrenOf(supervisor); return len(pids) > 0 || t.Failed() })
		if early {
			time.Sleep(time.Duration(r.IntN(50)) * time.Millisecond) // it starts: at any moment
		}
		if t.Failed() || syscall.Kill(slices.Max(pids), syscall.SIGKILL) != nil {
			continue
		}
		done.Add(1)
		testenv.EventuallyIs(t, "the daemon is dead", func() bool { return !slices.Equal(childrenOf(supervisor), pids) })
		early = r.IntN(8) == 0
	}
	before := reads.Load() + 64
	testenv.EventuallyIs(t, "readers go on", func() bool { return reads.Load() >= before || t.Failed() })
	t.Logf("%d kills, %d reads; readers of one death waited %v at most", done.Load(), reads.Load(), time.Duration(longest.Load()))
	testenv.Proved(t, "kills", done.Load(), time.Duration(longest.Load()).Seconds())
}
