package serve

import (
	"bytes"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/mixer"
)

// TestKeepable: the manual says what part of the budget no policy keeps.
func TestKeepable(t *testing.T) {
	manual, err := os.ReadFile("../../docs/reference.md")
	testenv.Must(t, err)
	const bytes = 1 << 30
	part := fmt.Sprintf("A %dth of `--cache-bytes`", bytes/(bytes-Keepable(bytes)))
	if !strings.Contains(strings.Join(strings.Fields(string(manual)), " "), part) {
		t.Errorf("docs/reference.md does not say %q", part)
	}
}

// plainFiles are files of about 10 KB that no codec knows.
func plainFiles(t testing.TB, n int) (root string, content [][]byte) {
	t.Helper()
	root = t.TempDir()
	for i := range n {
		data := make([]byte, 8000+i*37%4000)
		_, _ = rand.NewChaCha8([32]byte{byte(i), byte(i >> 8)}).Read(data)
		content = append(content, data)
		testenv.Must(t, os.WriteFile(filepath.Join(root, fmt.Sprintf("%04d.dat", i)), data, 0o644))
	}
	return root, content
}

func withCache(t testing.TB, policy string, bytes int64, samples int) func(*Options) {
	return func(o *Options) {
		c, err := mixer.NewCache(policy, Keepable(bytes), samples)
		testenv.Must(t, err)
		o.Cache, o.CacheBytes, o.Memfd = c, bytes, true
	}
}

// TestCacheKeepsItsPromise: many readers, who hold what has been given up.
func TestCacheKeepsItsPromise(t *testing.T) {
	const files, readers, epochs = 200, 8, 4
	root, content := plainFiles(t, files)
	for _, policy := range mixer.CachePolicies {
		t.Run(policy, func(t *testing.T) {
			const budget, samples = files * 12288 * 3 / 10, files / 2
			f := newFixture(t, root, withCache(t, policy, budget, samples))
			var named []File
			for i := range files {
				named = append(named, f.file(t, fmt.Sprintf("%04d.dat", i)))
			}
			for range epochs {
				order := rand.Perm(files)
				var next atomic.Int64
				var wg sync.WaitGroup
				for range readers {
					wg.Go(func() {
						for {
							at := int(next.Add(1)) - 1
							if at >= files {
								return
							}
							i := order[at]
							c, err := f.Open(t.Context(), Key(i), named[i], view(t, "original"))
							if err != nil {
								t.Error(err)
								return
							}
							got := make([]byte, c.Size())
							if _, err := c.ReadAt(got, 0); err != nil || !bytes.Equal(got, content[i]) {
								t.Errorf("%d: %v", i, err)
							}
							s := f.Stats()
							if s.MemoryBytes > budget || s.Cache.Samples > samples {
								t.Errorf("%d bytes and %d samples are held; %d and %d are promised", s.MemoryBytes, s.Cache.Samples, budget, samples)
							}
							c.Release()
						}
					})
				}
				wg.Wait()
			}
			s := f.Stats()
			if opens := s.Cache.Hits + s.Cache.Misses; opens != files*epochs || s.Hits != s.Cache.Hits || s.Opened != s.Cache.Misses {
				t.Errorf("%d opens counted: %+v", opens, s)
			}
			if s.Cache.Bytes < budget/2 || s.MemoryBytes != s.Cache.Bytes {
				t.Errorf("%d bytes kept, %d in memory, of %d", s.Cache.Bytes, s.MemoryBytes, budget)
			}
			if policy == mixer.LiquidCache && s.Cache.Population != files {
				t.Errorf("%d samples were counted", s.Cache.Population)
			}
		})
	}
}

// TestBudgetIsNeverExceeded: those who are refused take nothing from the others, not
// even for a moment.
func TestBudgetIsNeverExceeded(t *testing.T) {
	b := budget{limit: 10}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 10_000 {
				if b.take(11) {
					t.Error("11 of 10 were given")
					return
				}
				if !b.take(2) {
					t.Error("2 of 10 are not there for one of four")
					return
				}
				if held := b.held.Load(); held > b.limit {
					t.Errorf("%d of %d are held", held, b.limit)
				}
				b.give(2)
			}
		})
	}
	wg.Wait()
	if !b.take(10) || b.take(1) {
		t.Error("not all came back")
	}
}

// TestUncached: what is not kept is served as it is, and lasts until it is released.
func TestUncached(t *testing.T) {
	root, content := plainFiles(t, 3)
	f := newFixture(t, root, withCache(t, mixer.MinIOCache, 13000, 10))
	for i := range 3 {
		c, err := f.Open(t.Context(), Key(i), f.file(t, fmt.Sprintf("%04d.dat", i)), view(t, "original"))
		testenv.Must(t, err)
		if kept := c.Memory() != nil; kept != (i == 0) {
			t.Errorf("%d is in memory: %v", i, kept)
		}
		before := f.Stats().FetchedBytes
		got := make([]byte, c.Size())
		if _, err := c.ReadAt(got, 0); err != nil || !bytes.Equal(got, content[i]) {
			t.Errorf("%d: %v", i, err)
		}
		if n := f.Stats().FetchedBytes - before; (n == 0) != (i == 0) {
			t.Errorf("%d: %d bytes fetched", i, n)
		}
		if again := f.Acquire(Key(i)); (again == c) != (i == 0) {
			t.Errorf("%d is found: %p, opened as %p", i, again, c)
		} else if again != nil {
			again.Release()
		}
		c.Release()
	}
	if s := f.Stats(); s.Cache.Hits != 1 || s.Cache.Misses != 3 || s.Cache.Samples != 1 {
		t.Errorf("%+v", s.Cache)
	}
	f.Drop(0)
	if s := f.Stats(); s.MemoryBytes != 0 || s.Cache.Samples != 0 || f.Acquire(0) != nil {
		t.Errorf("dropped: %+v", s)
	}
}

// TestNoMemory: where the budget is taken by what readers hold, a sample is not
// kept, and the policy is told.
func TestNoMemory(t *testing.T) {
	root, _ := plainFiles(t, 2)
	f := newFixture(t, root, withCache(t, mixer.LRUCache, 16000, 10))
	hold, err := f.Open(t.Context(), 0, f.file(t, "0000.dat"), view(t, "original"))
	testenv.Must(t, err)
	f.Drop(0) // given up, but held
	c, err := f.Open(t.Context(), 1, f.file(t, "0001.dat"), view(t, "original"))
	testenv.Must(t, err)
	if s := f.Stats(); c.Memory() != nil || s.Cache.Samples != 0 || s.MemoryBytes != 8192 {
		t.Errorf("%+v", s)
	}
	// What cannot be read, or gets no file, gives back what it took.
	broken := &Content{size: 1, reader: memory{}}
	unread, files := f.intoMemory(broken), f.files
	f.files.dir = hold.Memory() // no directory
	unmade := f.intoMemory(broken)
	f.files = files
	if n := f.Stats().MemoryBytes; unread == nil || unmade != nil || n != 8192 {
		t.Errorf("%v, %v, %d bytes are held", unread, unmade, n)
	}
	c.Release()
	hold.Release()
}

// slowContent is content whose first read waits for something else to happen.
type slowContent struct {
	memory
	meanwhile func()
	closed    bool
}

func (s *slowContent) ReadAt(b []byte, off int64) (int, error) {
	s.meanwhile()
	return s.memory.ReadAt(b, off)
}

func (s *slowContent) Close() error { s.closed = true; return nil }

// TestSomebodyWasFaster: of two who open a file the slower one gets the content of the other, and closes his own.
func TestSomebodyWasFaster(t *testing.T) {
	for _, memfd := range []bool{false, true} {
		f := newFixture(t, t.TempDir(), func(o *Options) { o.Memfd = memfd })
		first := &Content{size: 1, reader: &slowContent{memory: memory{data: []byte("a")}, meanwhile: func() {}}}
		first.refs.Store(1)
		var got *Content
		faster := func() {
			var err error
			got, err = f.cache.put(7, first, f.Server)
			testenv.Must(t, err)
		}
		second := &slowContent{memory: memory{data: []byte("b")}, meanwhile: faster}
		if !memfd {
			faster()
		}
		other := &Content{size: 1, reader: second}
		other.refs.Store(1)
		again, err := f.cache.put(7, other, f.Server)
		testenv.Must(t, err)
		if got != first || again != first || first.refs.Load() != 3 || other.refs.Load() != 0 || !second.closed {
			t.Errorf("%p and %p, %d pins of the first and %d of the second", got, again, first.refs.Load(), other.refs.Load())
		}
		if held := f.Stats().MemoryBytes; memfd != (held == pageSize) {
			t.Errorf("%d bytes are held", held)
		}
		first.Release()
		first.Release()
	}
}

// TestBacking: the number is given back once, before the memory goes.
func TestBacking(t *testing.T) {
	root, _ := plainFiles(t, 2)
	f := newFixture(t, root, withCache(t, mixer.LRUCache, 14000, 10))
	open := func(key Key) *Content {
		c, err := f.Open(t.Context(), key, f.file(t, fmt.Sprintf("%04d.dat", key)), view(t, "original"))
		testenv.Must(t, err)
		return c
	}
	first := open(0)
	var gone []int32
	first.Back(7, func(id int32) {
		if _, err := first.Memory().Stat(); err != nil {
			t.Errorf("the memory went first: %v", err)
		}
		gone = append(gone, id)
	})
	first.Release()
	if again := f.Acquire(0); again != first || again.Backing() != 7 || len(gone) != 0 {
		t.Errorf("%p, %d gone", again, len(gone))
	}
	second := open(1) // takes the place of the first
	if len(gone) != 0 {
		t.Error("somebody holds it")
	}
	first.Release()
	if len(gone) != 1 || gone[0] != 7 {
		t.Errorf("gone: %v", gone)
	}
	second.Release()
}

// givenUp is a policy that says that it has given up. At a hit it gives up what it is told to.
type givenUp struct {
	mixer.Cache
	gone []uint64
}

func (g *givenUp) Open(key uint64, cost int64) (keep bool, evict []uint64) {
	keep, _ = g.Cache.Open(key, cost)
	return keep && g.gone == nil, g.gone
}

func (g *givenUp) Stats() mixer.CacheStats {
	s := g.Cache.Stats()
	s.Off = "nobody can tell"
	return s
}

// TestGivenUp: it is logged once. What goes at a hit goes when its readers have done.
func TestGivenUp(t *testing.T) {
	var log bytes.Buffer
	root, _ := plainFiles(t, 2)
	policy := &givenUp{}
	f := newFixture(t, root, func(o *Options) {
		withCache(t, mixer.LiquidCache, 1<<20, 10)(o)
		policy.Cache, o.Cache = o.Cache, policy
		o.Log = slog.New(slog.NewTextHandler(&log, nil))
	})
	file := f.file(t, "0000.dat")
	for range 3000 {
		if _, err := f.read(1, file, view(t, "original")); err != nil {
			t.Fatal(err)
		}
	}
	if n := strings.Count(log.String(), "nobody can tell"); n != 1 {
		t.Errorf("told %d times:\n%s", n, log.String())
	}
	_, err := f.read(2, f.file(t, "0001.dat"), view(t, "original"))
	testenv.Must(t, err)
	policy.gone = []uint64{2, 99}
	c := f.Acquire(1)
	if n := f.Stats().MemoryBytes; c == nil || f.Acquire(1) != nil || f.Acquire(2) != nil || n != 8192 {
		t.Fatalf("%d bytes are held", n)
	}
	c.Release() // the end of the test wants no bytes to be held
	f.Drop(1)
	f.Drop(2)
}
