package e2e

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/control"
	"github.com/pipefs/pipefs/internal/mounts"
	"github.com/pipefs/pipefs/internal/pictures"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/internal/testmount"
)

// timesKilled is how many daemons a test kills: share in make test, soak in make soak.
func timesKilled(share, soak int) int {
	if testenv.Soak() {
		return soak
	}
	return share
}

// killing is a mount under readers, of which the directory live changes ten times a second.
type killing struct {
	supervised
	versions [2][]byte // of live/changes.jpg
	want     map[string][32]byte
	names    []string // that are read
	seed     uint64
	stop     chan struct{}
	work     sync.WaitGroup
	reads    atomic.Int64
}

func newKilling(t *testing.T) *killing {
	k := &killing{supervised: supervised{t: t, env: testmount.Home(t), dataset: t.TempDir()}, seed: testenv.Seed(t), stop: make(chan struct{})}
	for i := range 12 {
		dir := filepath.Join(k.dataset, []string{"cats", "dogs", "live"}[i%3])
		testenv.Must(t, os.MkdirAll(dir, 0o755))
		testenv.Must(t, pictures.Write(filepath.Join(dir, fmt.Sprintf("%d.jpg", i)), pictures.Photo(160, 120, uint64(i))))
	}
	// The kernel holds a directory locked while it waits for the size of such a file.
	testenv.Must(t, pictures.Write(filepath.Join(k.dataset, "live/slow.png"), pictures.Photo(1200, 900, 20)))
	for i := range k.versions {
		name := filepath.Join(k.dataset, "live/changes.jpg")
		testenv.Must(t, pictures.Write(name, pictures.Photo(160, 120, uint64(30+i))))
		var err error
		k.versions[i], err = os.ReadFile(name)
		testenv.Must(t, err)
	}
	return k
}

// learn notes what the files of views hold.
func (k *killing) learn(views ...string) {
	k.want, k.names = map[string][32]byte{}, nil
	for _, view := range views {
		for name, sum := range hashes(k.t, k.path(view)) {
			name = k.path(view, name)
			k.names = append(k.names, name)
			if !strings.Contains(name, "/live/changes") {
				k.want[name] = sum
			}
		}
	}
	slices.Sort(k.names)
}

// edit replaces live/changes.jpg ten times a second.
func (k *killing) edit() {
	k.work.Go(func() {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for i := 0; ; i++ {
			select {
			case <-k.stop:
				return
			case <-tick.C:
			}
			name := filepath.Join(k.dataset, "live/changes.jpg")
			if err := errors.Join(os.WriteFile(name+".new", k.versions[i%2], 0o644), os.Rename(name+".new", name)); err != nil {
				k.t.Error(err)
				return
			}
		}
	})
}

// read has 16 readers read until stop is closed, or failed returns true for an error.
func (k *killing) read(failed func(name string, err error) bool) {
	for i := range 16 {
		k.work.Go(func() {
			r := rand.New(rand.NewPCG(k.seed, uint64(i)))
			for {
				select {
				case <-k.stop:
					return
				default:
				}
				name := k.names[r.IntN(len(k.names))]
				sum, err := readCold(name)
				if want, fixed := k.want[name]; err == nil && fixed && sum != want {
					err = errors.New("other bytes than before")
				}
				if err != nil && failed(name, err) {
					return
				}
				k.reads.Add(1)
			}
		})
	}
}

// moment waits for some reads, at random.
func (k *killing) moment(r *rand.Rand) {
	until := k.reads.Load() + r.Int64N(100)
	testenv.Eventually(k.t, func() error {
		if k.reads.Load() >= until || k.t.Failed() {
			return nil
		}
		return fmt.Errorf("readers read: no%s", waiting())
	})
}

// waiting tells which threads of daemons and of this test wait in the kernel for good.
func waiting() string {
	stats, _ := filepath.Glob("/proc/[0-9]*/task/[0-9]*/stat")
	var b strings.Builder
	for _, name := range stats {
		stat, _ := os.ReadFile(name)
		if bytes.Contains(stat, []byte("(pipefs) D")) || bytes.Contains(stat, []byte("(e2e.test) D")) {
			in, _ := os.ReadFile(strings.TrimSuffix(name, "stat") + "wchan")
			fmt.Fprintf(&b, "; %s waits in %s", name, in)
		}
	}
	return b.String()
}

// TestKilledUnderEdits kills a supervised daemon at random moments, while files change, views
// are read whose sizes have to be computed, and pages of random views are dropped: readers see
// no error, and no other bytes.
func TestKilledUnderEdits(t *testing.T) {
	t.Parallel()
	k := newKilling(t)
	k.mnt = testmount.Mount(t, k.env, k.dataset, "--supervise", "--deaths", "1000000", "--store-max", "0")
	k.learn("original", "bmp", "png", "scan5", ".draw/7/0/rrc32-hflip-npy", ".epoch/7/0/1/0/4/rrc32-npy/cats")
	drawn := func(int) []string { return []string{k.path("rrc48-npy/cats/0.npy"), k.path("rrc48-npy/live/slow.npy")} }
	k.names = append(k.names, drawn(0)...) // each of its reads is another draw
	k.edit()
	k.read(func(name string, err error) bool {
		if errors.Is(err, unix.ESTALE) && strings.Contains(name, "/live/changes") {
			return false // it changed while it was read
		}
		k.t.Errorf("%s: %v", name, err)
		return true
	})
	k.killSome(timesKilled(30, 1500), func() {})
}

// TestKilledUnderRefresh is the same with a store that is refreshed.
func TestKilledUnderRefresh(t *testing.T) {
	t.Parallel()
	g := newGrowing(t, testmount.Home(t), filepath.Join(t.TempDir(), "store"))
	k := &killing{supervised: supervised{t: t, env: g.env, dataset: g.dataset}, seed: testenv.Seed(t), stop: make(chan struct{})}
	k.mnt = testmount.Mount(t, k.env, g.store, "--supervise", "--deaths", "1000000")
	k.learn("scan5", "bmp", ".draw/7/0/rrc32-npy")
	k.names = slices.DeleteFunc(k.names, func(name string) bool { return strings.Contains(name, "/dogs/") })
	k.read(func(name string, err error) bool {
		k.t.Errorf("%s: %v", name, err)
		return true
	})
	times := 0
	k.killSome(timesKilled(30, 1500), func() {
		if times++; times%4 != 0 {
			return
		}
		g.put("dogs/0.jpg") // the readers read cats
		testmount.Command(t, k.env, "pack", g.dataset, g.store)
		cmd := exec.Command(testmount.Binary(t), "refresh", k.mnt)
		cmd.Env = k.env
		testenv.Must(t, cmd.Start())
		go func() { _ = cmd.Wait() }() // the kill that follows may end it
	})
}

// killSome kills the daemon again and again. Before each time it calls before.
func (k *killing) killSome(times int, before func()) {
	r := rand.New(rand.NewPCG(k.seed, 100))
	pid := k.stats().PID
	for range times {
		before()
		k.moment(r)
		testenv.Must(k.t, syscall.Kill(pid, syscall.SIGKILL))
		was := pid
		testenv.EventuallyIs(k.t, "the next daemon serves", func() bool {
			pid = k.stats().PID
			return pid != was
		})
		if k.t.Failed() {
			break
		}
	}
	close(k.stop)
	k.work.Wait()
	k.t.Logf("%d reads, %+v", k.reads.Load(), k.stats().Supervised)
}

// TestEndedByForce ends mounts that are not supervised under readers and edits, in every way that
// does not wait for them: readers get an error, and no process and no thread stays.
func TestEndedByForce(t *testing.T) {
	t.Parallel()
	testenv.Mounts(t)
	k := newKilling(t)
	dataset := k.dataset
	ways := []func(now control.Stats, parent int) error{
		func(now control.Stats, _ int) error { return syscall.Kill(now.PID, syscall.SIGKILL) },
		func(_ control.Stats, parent int) error {
			return errors.Join(syscall.Kill(parent, syscall.SIGTERM), syscall.Kill(parent, syscall.SIGINT))
		},
		func(now control.Stats, _ int) error { return syscall.Kill(now.PID, syscall.SIGTERM) },
		func(_ control.Stats, _ int) error {
			testmount.Command(t, k.env, "umount", "--force", k.mnt)
			return nil
		},
	}
	r := rand.New(rand.NewPCG(k.seed, 100))
	k.mnt = filepath.Join(t.TempDir(), "mnt")
	testenv.Must(t, os.Mkdir(k.mnt, 0o755))
	for i := range timesKilled(60, 500) {
		testmount.Command(t, k.env, "mount", "--store-max", "0", dataset, k.mnt)
		if i == 0 {
			k.learn("original", "bmp", "png")
			k.want = nil // whatever is read is right or an error: other tests compare
			k.names = append(k.names, k.path("rrc48-npy/live/slow.npy"))
		}
		// A file that is open makes the mount busy.
		held, err := os.Open(k.path("original/cats/0.jpg"))
		testenv.Must(t, err)
		k.stop = make(chan struct{})
		var failed atomic.Int64
		k.edit()
		k.read(func(name string, err error) bool {
			failed.Add(1)
			return true
		})
		now := k.stats()
		parent := parentOf(t, now.PID)
		k.moment(r)
		began := time.Now()
		testenv.Must(t, ways[i%len(ways)](now, parent))
		testenv.EventuallyIs(t, "all readers get an error", func() bool { return failed.Load() == 16 })
		took := time.Since(began)
		close(k.stop)
		k.work.Wait()
		held.Close()
		testenv.EventuallyIs(t, "both processes are gone", func() bool {
			return ended(now.PID) && ended(parent)
		})
		if took > 10*time.Second { // twice what is promised: the machine may be busy
			t.Errorf("way %d: readers waited for %v", i%len(ways), took)
		}
		if at, err := mounts.At(k.mnt); err != nil || at != nil {
			testmount.Command(t, k.env, "umount", k.mnt)
		}
	}
}

// ended reports whether no thread of a process is left; it need not be reaped.
func ended(pid int) bool {
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	return err != nil || len(threads) == 1 && mounts.Zombie(pid)
}

func parentOf(t *testing.T, pid int) (parent int) {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	testenv.Must(t, err)
	_, rest, _ := strings.Cut(string(status), "PPid:")
	_, err = fmt.Sscan(rest, &parent)
	testenv.Must(t, err)
	return parent
}

// TestSuspects: a request that ends each daemon that answers it becomes an error, and the mount
// goes on.
func TestSuspects(t *testing.T) {
	s := newSupervised(t, "--store-max", "0")
	header := make([]byte, 54) // of a BMP file of zeros: 8000 x 8000 pixels, 24 bits each
	const side, size = 8000, 54 + 3*8000*8000
	copy(header, "BM")
	for at, v := range map[int]uint32{2: size, 10: 54, 14: 40, 18: side, 22: side, 26: 1 | 24<<16, 34: size - 54} {
		binary.LittleEndian.PutUint32(header[at:], v)
	}
	name := filepath.Join(s.dataset, "slow.bmp")
	testenv.Must(t, errors.Join(os.WriteFile(name, header, 0o644), os.Truncate(name, size)))
	testenv.EventuallyIs(t, "the file is seen", func() bool { _, err := os.Stat(s.path("bmp/slow.bmp")); return err == nil })
	result := make(chan error, 1)
	go func() {
		_, err := os.Stat(s.path("png/slow.png"))
		result <- err
	}()
	for range 3 {
		var now control.Stats
		testenv.EventuallyIs(t, "the size of the file is computed", func() bool {
			now = s.stats()
			return slices.ContainsFunc(now.Counters, func(c control.Counter) bool {
				return c.Group == "png" && c.Name == "lookups" && c.Value > 0
			})
		})
		testenv.Must(t, syscall.Kill(now.PID, syscall.SIGABRT))
		testenv.EventuallyIs(t, "the next daemon serves", func() bool { return s.stats().PID != now.PID })
	}
	if err := <-result; !errors.Is(err, unix.EIO) {
		t.Errorf("the file that daemons died of: %v", err)
	}
	if _, err := os.Stat(s.path("png/slow.png")); !errors.Is(err, unix.EIO) {
		t.Errorf("again: %v", err)
	}
	if _, err := os.ReadFile(firstIn(t, s.path("png"), "*/*.png")); err != nil {
		t.Error(err)
	}
}

// TestInCacheDirectory mounts where the daemon keeps what it prepares, and has a daemon die there.
func TestInCacheDirectory(t *testing.T) {
	t.Parallel()
	testenv.Mounts(t)
	s := &supervised{t: t, env: testmount.Home(t), dataset: testmount.Generate(t, "-samples", "2")}
	cache := t.TempDir()
	s.env = append(s.env, "XDG_CACHE_HOME="+cache)
	s.mnt = filepath.Join(cache, "pipefs", "mnt")
	testenv.Must(t, os.MkdirAll(s.mnt, 0o755))
	testmount.Command(t, s.env, "mount", "--supervise", s.dataset, s.mnt)
	s.kill()
	if _, err := os.ReadFile(firstIn(t, s.path("bmp"), "*/*.bmp")); err != nil {
		t.Error(err)
	}
	testmount.Command(t, s.env, "umount", s.mnt)
}

// TestReadyTimeout: a daemon that does not come up in time is killed, and its mount taken away.
func TestReadyTimeout(t *testing.T) {
	t.Parallel()
	testenv.Mounts(t)
	env, dataset, cache, mnt := testmount.Home(t), testmount.Generate(t, "-samples", "2"), t.TempDir(), t.TempDir()
	testenv.Must(t, os.Mkdir(filepath.Join(cache, "pipefs"), 0o700))
	lock, err := os.Create(filepath.Join(cache, "pipefs", "lock"))
	testenv.Must(t, err)
	defer lock.Close()
	testenv.Must(t, unix.Flock(int(lock.Fd()), unix.LOCK_EX)) // the daemon waits for it
	cmd := exec.Command(testmount.Binary(t), "mount", "--ready-timeout", "1s", dataset, mnt)
	cmd.Env = append(env, "XDG_CACHE_HOME="+cache)
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "did not answer within 1s") {
		t.Errorf("%v: %s", err, out)
	}
	if at, err := mounts.At(mnt); at != nil || err != nil {
		t.Errorf("still mounted: %+v, %v", at, err)
	}
	if out, err := exec.Command("pgrep", "-f", mnt).Output(); err == nil {
		t.Errorf("processes are left: %s", out)
	}
}
