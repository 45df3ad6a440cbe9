package blockcache

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pipefs/pipefs/internal/testenv"
)

// vandal does something to a file below a directory: flips a bit, writes nonsense, cuts it off,
// makes it longer, removes it, or puts another one in its place.
func vandal(dir string, r *rand.Rand) {
	var files []string
	_ = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() && filepath.Base(path) != "lock" && filepath.Ext(path) != ".lock" {
			files = append(files, path)
		}
		return nil
	})
	if len(files) == 0 {
		return
	}
	path := files[r.IntN(len(files))]
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return
	}
	at := r.Int64N(info.Size())
	if r.IntN(2) == 0 { // in the table
		at = r.Int64N(min(info.Size(), 4096))
	}
	switch r.IntN(20) {
	case 0:
		_ = f.Truncate(at)
	case 1:
		_ = f.Truncate(info.Size() + at)
	case 2:
		_ = os.Remove(path)
	case 3:
		other, err := os.ReadFile(files[r.IntN(len(files))])
		if err == nil {
			_, _ = f.WriteAt(other, 0)
		}
	case 4:
		_, _ = f.WriteAt(make([]byte, r.IntN(1<<17)), at)
	case 5:
		b := make([]byte, r.IntN(1<<17))
		content("nonsense", b, at)
		_, _ = f.WriteAt(b, at)
	case 6: // a block where another one was
		b := make([]byte, unit)
		_, _ = f.ReadAt(b, at)
		_, _ = f.WriteAt(b, r.Int64N(info.Size()))
	default:
		var b [1]byte
		_, _ = f.ReadAt(b[:], at)
		b[0] ^= 1 << r.IntN(8)
		_, _ = f.WriteAt(b[:], at)
	}
}

// Whatever happens to the files under readers, no byte is wrong, and no read fails.
func TestDamage(t *testing.T) {
	rounds, reads := 4, 300
	if testenv.Soak() {
		rounds, reads = 20, 500
	}
	dir := t.TempDir()
	p := &place{name: "memory:"}
	damaged := int64(0)
	for round := range uint64(rounds) {
		c, err := Open(dir, Options{MaxBytes: 30 << 20})
		testenv.Must(t, err)
		var readers, others sync.WaitGroup
		turns := make(chan struct{}) // one for each read, but not while the last one is taken
		others.Go(func() {
			r := rand.New(rand.NewPCG(round, 99))
			for range turns {
				for range 8 {
					vandal(dir, r)
				}
				if r.IntN(10) == 0 {
					for _, s := range c.all() {
						s.refresh()
					}
				}
			}
		})
		for seed := range uint64(3) {
			readers.Go(func() {
				r := rand.New(rand.NewPCG(round, seed))
				for range reads {
					if err := randomRead(c, p, r); err != nil {
						t.Error(err)
						return
					}
					select {
					case turns <- struct{}{}:
					default:
					}
				}
			})
		}
		readers.Wait()
		close(turns)
		others.Wait()
		damaged += c.Stats().Damaged
		testenv.Must(t, c.Close())
	}
	t.Log(damaged, "damaged pieces were found")
	if damaged < int64(rounds) {
		t.Error("too few")
	}
	testenv.Proved(t, "damage", damaged)
}

// TestMain also is the processes that the tests start.
func TestMain(m *testing.M) {
	if dir := os.Getenv("BLOCKCACHE_READER"); dir != "" {
		if err := reader(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// reader reads at random until it is killed, or so many times.
func reader(dir string) error {
	seed, _ := strconv.ParseUint(os.Getenv("BLOCKCACHE_SEED"), 10, 64)
	reads, _ := strconv.Atoi(os.Getenv("BLOCKCACHE_READS"))
	most, _ := strconv.ParseInt(os.Getenv("BLOCKCACHE_BYTES"), 10, 64)
	var log bytes.Buffer
	c, err := Open(dir, Options{MaxBytes: most, Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		return err
	}
	p, r := &place{name: "memory:"}, rand.New(rand.NewPCG(seed, 7))
	fmt.Println("reading")
	for range reads {
		if err := randomRead(c, p, r); err != nil {
			return err
		}
	}
	err = c.Close()
	fmt.Printf("%+v\n%s", c.Stats(), &log)
	return err
}

func readerCommand(t *testing.T, dir string, seed uint64, reads int, most int64) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	self, err := os.Executable()
	testenv.Must(t, err)
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), "BLOCKCACHE_READER="+dir, fmt.Sprintf("BLOCKCACHE_SEED=%d", seed), fmt.Sprintf("BLOCKCACHE_READS=%d", reads), fmt.Sprintf("BLOCKCACHE_BYTES=%d", most))
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	return cmd, &out
}

// A process that is killed at any moment leaves a cache that gives right bytes.
func TestKilled(t *testing.T) {
	testenv.Slow(t)
	kills := 8
	if testenv.Soak() {
		kills = 200
	}
	dir := t.TempDir()
	r := rand.New(rand.NewPCG(3, 4))
	p := &place{name: "memory:"}
	hits := int64(0)
	for n := range uint64(kills) {
		cmd, out := readerCommand(t, dir, n, 1<<30, 40<<20)
		testenv.Must(t, cmd.Start())
		time.Sleep(time.Duration(r.IntN(150)) * time.Millisecond) // at any moment
		testenv.Must(t, cmd.Process.Kill())
		if err := cmd.Wait(); cmd.ProcessState.Exited() {
			t.Fatalf("%v\n%s", err, out)
		}
		if n%4 == 3 {
			c, err := Open(dir, Options{MaxBytes: 40 << 20})
			testenv.Must(t, err)
			for range 100 {
				testenv.Must(t, randomRead(c, p, r))
			}
			if s := c.Stats(); s.Damaged > 0 {
				t.Errorf("after %d kills: %+v", n+1, s)
			}
			hits += c.Stats().Hits
			testenv.Must(t, c.Close())
		}
	}
	if hits == 0 {
		t.Error("the killed ones left nothing")
	}
}

// used is what the files below a directory take.
func used(dir string) (n int64) {
	_ = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(path) == segmentSuffix {
			if info, err := e.Info(); err == nil {
				n += info.Size()
			}
		}
		return nil
	})
	return n
}

// Several processes with one directory keep the limit together, and find what the others have
// kept.
func TestTogether(t *testing.T) {
	testenv.Slow(t)
	dir := t.TempDir()
	const most = 25 << 20
	var all []*exec.Cmd
	var outs []*bytes.Buffer
	for seed := range uint64(3) {
		cmd, out := readerCommand(t, dir, seed, 300, most)
		testenv.Must(t, cmd.Start())
		all, outs = append(all, cmd), append(outs, out)
	}
	done := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		for {
			if n := used(dir); n > most {
				t.Errorf("%d bytes are kept", n)
			}
			select {
			case <-done:
				return
			case <-time.After(time.Millisecond):
			}
		}
	})
	for i, cmd := range all {
		if err := cmd.Wait(); err != nil {
			t.Errorf("%v\n%s", err, outs[i])
		}
	}
	close(done)
	watch.Wait()
	if n := used(dir); n < most/2 {
		t.Errorf("only %d bytes are kept", n)
	}

	// Another process of the same place, while the first one has it open.
	dir = t.TempDir()
	p := &place{name: "memory:"}
	one, two := opened(t, dir, Options{}), opened(t, dir, Options{})
	b := object(two, p, "a", 8<<20)
	testenv.Must(t, check(object(one, p, "a", 8<<20), 0, 4<<20))
	one.waitWritten(t)
	for _, s := range two.all() {
		s.refresh()
	}
	before := p.bytes.Load()
	testenv.Must(t, check(b, 0, 4<<20))
	if n := p.bytes.Load() - before; n != 0 {
		t.Errorf("%d bytes were fetched again", n)
	}
	testenv.Must(t, check(b, 0, 8<<20))
	two.waitWritten(t)
	if n := used(dir); n < 8<<20 || n > 9<<20 {
		t.Errorf("%d bytes are kept", n)
	}
}

// A full cache goes on reading: each block is fetched once for those who read it in pieces.
func TestFull(t *testing.T) {
	const most = 3 << 20
	dir := t.TempDir()
	p := &place{name: "memory:"}
	var log bytes.Buffer
	c := opened(t, dir, Options{MaxBytes: most, Log: slog.New(slog.NewTextHandler(&log, nil))})
	o := object(c, p, "a", 10<<20)
	for range 2 {
		for off := int64(0); off < o.Size(); off += 10_000 {
			testenv.Must(t, check(o, off, 10_000))
		}
		c.waitWritten(t)
		if n := used(dir); n > most {
			t.Errorf("%d bytes are kept", n)
		}
	}
	// The second time what was kept first is there, and what was read last is remembered.
	stats := c.Stats()
	if stats.Kept < most*3/4 || stats.Fetched > 11<<20 || stats.Skipped == 0 {
		t.Errorf("%+v", stats)
	}
	if n := strings.Count(log.String(), "the cache is full"); n != 1 {
		t.Errorf("the log:\n%s", &log)
	}
}

// What nobody reads while the rest is read again and again makes room for what is.
func TestStale(t *testing.T) {
	dir := t.TempDir()
	p := &place{name: "memory:"}
	c := opened(t, dir, Options{MaxBytes: 8 << 20})
	old := object(c, p, "old", 4<<20)
	testenv.Must(t, check(old, 0, old.Size()))
	live := object(c, p, "live", 3<<20)
	more := object(c, p, "more", 4<<20)
	reads := func(o *Object, times int) {
		t.Helper()
		for range times {
			testenv.Must(t, check(o, 0, o.Size()))
			c.waitWritten(t)
		}
	}
	reads(live, 1)
	reads(more, 1)
	kept := c.Stats()
	if kept.Evicted != 0 || kept.Skipped == 0 {
		t.Fatalf("before: %+v", kept)
	}
	// Two rounds, as the first one has seen the old one, too.
	for range 12 {
		reads(live, 2)
		s := c.all()[0]
		s.write.Lock()
		s.mu.Lock()
		s.turn()
		s.mu.Unlock()
		s.write.Unlock()
	}
	reads(object(c, p, "new", 4<<20), 1)
	if s := c.Stats(); s.Evicted == 0 {
		t.Errorf("nothing was evicted: %+v", s)
	}
	before := p.bytes.Load()
	reads(live, 1)
	if p.bytes.Load() != before {
		t.Error("what is read went")
	}
}

// Each shuffled epoch of three times what fits hits all that is kept: one that removes what was read
// longest ago hits 6 %. Nothing is written any more.
func TestShuffled(t *testing.T) {
	const objects, size, most = 150, 100_000, 5 << 20
	p := &place{name: "memory:"}
	c := opened(t, t.TempDir(), Options{MaxBytes: most})
	c.recentMost = 1 << 20 // memory hides nothing
	var kept int64
	for epoch := range uint64(4) {
		before := p.bytes.Load()
		for _, n := range rand.New(rand.NewPCG(epoch, testenv.Seed(t))).Perm(objects) {
			testenv.Must(t, check(object(c, p, strconv.Itoa(n), size), 0, size))
		}
		c.waitWritten(t)
		s := c.Stats()
		switch fetched := p.bytes.Load() - before; {
		case epoch == 0:
			if kept = s.Kept; kept < most*8/10 {
				t.Errorf("%d bytes are kept", kept)
			}
		case fetched > objects*size-kept, s.Kept != kept, s.Evicted > 0:
			t.Errorf("epoch %d: %d bytes of %d were fetched, with %d kept: %+v", epoch, fetched, objects*size, kept, s)
		}
	}
}

// A disk that is full, or of which nobody may write: reading goes on.
func TestNoSpace(t *testing.T) {
	testenv.Slow(t)
	testenv.Root(t)
	dir := t.TempDir()
	cmd, out := readerCommand(t, dir, 1, 200, 0)
	inside := exec.Command("unshare", "-m", "--propagation", "private", "sh", "-c", `mount -t tmpfs -o size=2m none "$0" && chmod 700 "$0" && echo 1000000000 > "$0/limit" && exec "$1"`, dir, cmd.Path)
	inside.Env, inside.Stdout, inside.Stderr = cmd.Env, cmd.Stdout, cmd.Stderr
	if err := inside.Run(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if n := strings.Count(out.String(), "cannot be kept"); n != 1 || !strings.Contains(out.String(), "no space left") {
		t.Errorf("the log:\n%s", out)
	}
}

// A disk with bad sectors: what cannot be read is fetched again, and kept elsewhere.
func TestBadSectors(t *testing.T) {
	const size = 10*unit + 77
	p := &place{name: "memory:"}
	var log bytes.Buffer
	c := opened(t, t.TempDir(), Options{MaxBytes: 8 << 20, Log: slog.New(slog.NewTextHandler(&log, nil))})
	whole, parts := object(c, p, "whole", size), object(c, p, "parts", size)
	for round := range int64(4) {
		testenv.Must(t, check(whole, 0, size))
		for off := int64(0); off < size; off += 10_000 {
			testenv.Must(t, check(parts, off, 10_000))
		}
		c.waitWritten(t)
		if got, want := p.bytes.Load(), min(round/2+1, 2)*2*size; got != want {
			t.Errorf("round %d: %d bytes were fetched, want %d", round, got, want)
		}
		if round == 1 {
			bad, err := os.Open("/proc/self/mem") // reads of addresses that nothing is mapped to fail with EIO
			testenv.Must(t, err)
			s := c.all()[0]
			s.write.Lock()
			for _, segment := range s.index.segments {
				segment.file.Close()
				segment.file = bad
			}
			s.active = nil
			s.write.Unlock()
		}
	}
	if n := strings.Count(log.String(), "\n"); n != 1 || !strings.Contains(log.String(), "fetched again") {
		t.Errorf("the log:\n%s", &log)
	}
}

// A directory that goes while it is used, and one that cannot be written to.
func TestGone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	p := &place{name: "memory:"}
	var log bytes.Buffer
	c := opened(t, dir, Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	o := object(c, p, "a", 20<<20)
	testenv.Must(t, check(o, 0, 5<<20))
	c.waitWritten(t)
	testenv.Must(t, os.RemoveAll(dir))
	testenv.Must(t, check(o, 0, 20<<20))
	c.waitWritten(t)
	for _, s := range c.all() {
		s.refresh()
	}
	testenv.Must(t, check(o, 0, 20<<20))
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if n := strings.Count(log.String(), "\n"); n != 1 || !strings.Contains(log.String(), "cannot be kept") {
		t.Errorf("the log:\n%s", &log)
	}
}
