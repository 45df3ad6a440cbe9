package ahead

import (
	"crypto/sha256"
	"encoding/hex"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pipefs/pipefs/internal/epoch"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/codecs"
)

// One reader, who reads one file after the other, has many of them loaded at once.
func TestOverlap(t *testing.T) {
	f := newFixture(t, 300, 4096, 16<<20)
	names := slices.Clone(f.names)
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	for batch := range slices.Chunk(names, 50) {
		f.hint("a", true, batch...)
		f.read(batch...)
	}
	s := f.queue.Stats()
	// A reader may come just when its file is begun.
	if s.Hinted != 300 || s.Wasted > 15 || s.Failed != 0 || s.Read+s.Wasted+s.Already+s.Dropped != 300 || s.Read < 200 {
		t.Errorf("%+v", s)
	}
	if n := f.far.most.Load(); n < 8 {
		t.Errorf("%d reads at once", n)
	}
	// A file that a reader overtook is read once more at most.
	if n := f.far.reads.Load(); n > 300+s.Wasted+s.Already+s.Dropped {
		t.Errorf("%d reads of 300 files: %+v", n, s)
	}
	f.until("nothing is held", func(s Stats) bool { return s.Bytes == 0 })
}

// Readers of one file at once, who come before, while and after it is loaded, share it.
func TestManyReaders(t *testing.T) {
	f := newFixture(t, 100, 8192, 16<<20)
	f.hint("a", true, f.names...)
	together(8, func(int) { f.read(f.names...) })
	if n := f.far.reads.Load(); n > 250 {
		t.Errorf("%d reads", n)
	}
}

// A reader who comes while its file is loaded waits for that, and the window grows.
func TestWaits(t *testing.T) {
	f := newFixture(t, 200, 100, 16<<20)
	gate := make(chan struct{})
	f.far.gate.Store(&gate)
	f.hint("a", true, f.names...)
	f.until("the window is full", func(Stats) bool { return f.far.now.Load() == firstWindow })
	done := make(chan struct{})
	go func() { defer close(done); f.read(f.names[0]) }()
	testenv.EventuallyIs(t, "somebody waits", f.server.Busy)
	f.far.gate.Store(nil)
	close(gate)
	<-done
	f.until("the window has grown", func(s Stats) bool { return s.Waited == 1 && s.Loaded == 2*firstWindow+1 })
	if n := f.far.reads.Load(); n != 2*firstWindow+1 {
		t.Errorf("%d reads", n)
	}
}

// Nothing is loaded beyond the budget, and reading makes room.
func TestBudget(t *testing.T) {
	f := newFixture(t, 100, 10_000, 65_000)
	f.hint("a", true, f.names...)
	for _, name := range f.names {
		f.until("it is loaded", func(Stats) bool { return f.loaded(name) }) // those behind it may be loaded first
		if s := f.queue.Stats(); s.Bytes > 65_000 {
			t.Fatalf("%+v", s)
		}
		f.read(name)
	}
	if s := f.queue.Stats(); s != (Stats{Hinted: 100, Loaded: 100, Read: 100, Streams: 1}) {
		t.Errorf("%+v", s)
	}
	g := newFixture(t, 2, 10_000, 5_000)
	g.hint("a", true, g.names...)
	g.until("they are too large", func(s Stats) bool { return s.Failed == 2 && s.Bytes == 0 })
}

// Other files are read than were announced: the hints go, and the log says so.
func TestContradiction(t *testing.T) {
	f := newFixture(t, 400, 1000, 16<<20)
	f.hint("wrong", false, f.names[:200]...)
	f.until("the window is full", func(s Stats) bool { return s.Loaded == firstWindow })
	f.read(f.names[200:]...)
	f.until("they are dropped", func(s Stats) bool { return s.Wrong == 1 && s.Bytes == 0 && s.Wasted >= firstWindow })
	if got := f.logged(); !strings.Contains(got, "other files are read than were announced") {
		t.Errorf("the log: %s", got)
	}
	f.hint("wrong", false, f.names[:10]...)
	f.until("less is loaded of what comes from there", func(s Stats) bool { return s.Loaded == firstWindow+1 })
}

// logged is the log, when nothing writes it any more.
func (f *fixture) logged() string {
	f.queue.mu.Lock()
	defer f.queue.mu.Unlock()
	return f.log.String()
}

// A reader goes on without having read: of files that the kernel has, say.
func TestReplace(t *testing.T) {
	f := newFixture(t, 400, 1000, 16<<20)
	for i := range 8 {
		f.hint("cached", true, f.names[50*i:50*i+50]...)
		f.until("they are loaded", func(s Stats) bool { return s.Loaded-s.Wasted == int64(max(1, firstWindow>>i)) })
	}
	f.hint("cached", true)
	f.until("nothing is left", func(s Stats) bool {
		return s.Bytes == 0 && s.Wasted == 2*firstWindow-1+3 && s.Dropped == 400-s.Wasted
	})
	// It is read again, and the window grows again.
	f.far.trip = 5 * time.Millisecond
	f.hint("cached", true, f.names...)
	f.read(f.names...)
	if n := f.far.most.Load(); n < 8 {
		t.Errorf("%d reads at once", n)
	}
}

// Readers are killed: what was loaded for them goes in the end, and others are not held up.
func TestKilled(t *testing.T) {
	f := newFixture(t, 100, 100_000, 800_000)
	f.queue.stale = 50 * time.Millisecond
	f.hint("killed", true, f.names[:50]...)
	f.until("the budget is used up", func(s Stats) bool { return s.Loaded >= 5 })
	f.hint("alive", true, f.names[50:]...)
	f.read(f.names[50:]...)
	f.until("nothing is left of it", func(s Stats) bool { return s.Bytes == 0 && s.Wasted > 0 && s.Streams == 0 })
}

// An order waits while its reader is at something else, and goes on where he does.
func TestPause(t *testing.T) {
	f := newFixture(t, 400, 1000, 40_000)
	lists := epoch.New(epoch.Options{Registry: codecs.Default(transcode.Limits{}), Server: f.server})
	defer lists.Close()
	lists.Use(flatTree{names: f.names})
	f.queue.o.Lists = lists
	places := make([]uint32, 200)
	for i := range places {
		places[i] = uint32(i)
	}
	digest := sha256.Sum256([]byte(strings.Join(f.names, "\n") + "\n"))
	testenv.Must(t, f.queue.Take(message(header{V: Version, Stream: "epoch", Digest: hex.EncodeToString(digest[:])}, order(places...))))
	f.read(f.names[:50]...)
	f.until("it runs ahead", func(s Stats) bool { return s.Read > 20 && s.Bytes > 1000 })
	f.read(f.names[200:]...)
	f.until("some are left", func(s Stats) bool { return s.Wrong == 1 && s.Bytes == 1000*keptFiles })
	before := f.queue.Stats()
	f.read(f.names[50:200]...)
	f.until("it goes on", func(s Stats) bool { return s.Read > before.Read+20 && s.Read+s.Wasted+s.Already+s.Dropped == 200 })
}

// What is not there, and what is wrong, harms nobody.
func TestWrongHints(t *testing.T) {
	f := newFixture(t, 10, 1000, 1<<20)
	f.hint("a", true, "not here", f.names[0], "", "../../etc/passwd", f.names[1])
	f.until("the others are loaded", func(s Stats) bool { return s.Failed == 3 && s.Loaded == 2 })
	f.read(f.names...)
	good := header{V: Version, Stream: "a"}
	for _, c := range []struct {
		message []byte
		want    string
	}{
		{nil, "no first line"},
		{[]byte("x\n"), "cannot be read"},
		{message(header{V: 2, Stream: "a"}, nil), "version 1 of hints, not 2"},
		{message(header{V: 1}, nil), "1 to 64 bytes"},
		{message(header{V: 1, Stream: strings.Repeat("a", 65)}, nil), "1 to 64 bytes"},
		{message(good, []byte("0000.jpg")), "cut short"},
		{message(header{V: 1, Stream: "a", Digest: "00"}, nil), "knows no lists"},
	} {
		if err := f.queue.Take(c.message); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.40q: %v, want %s", c.message, err, c.want)
		}
	}
}

// FuzzTake: no message does harm.
func FuzzTake(f *testing.F) {
	f.Add(message(header{V: Version, Stream: "a"}, []byte("0000.jpg\x00")))
	f.Add(message(header{V: Version, Stream: "a", Digest: "00"}, order(1, 2)))
	f.Fuzz(func(t *testing.T, m []byte) {
		x := newFixture(t, 1, 10, 1000)
		_ = x.queue.Take(m)
		x.read(x.names...)
	})
}

// An epoch of a million samples is four megabytes, and checked by its digest.
func TestMillion(t *testing.T) {
	testenv.Slow(t)
	const n = 1_000_000
	f := newFixture(t, 1, 10, 1<<20)
	tree := manyTree{n}
	lists := epoch.New(epoch.Options{Registry: codecs.Default(transcode.Limits{}), Server: f.server})
	defer lists.Close()
	lists.Use(tree)
	f.queue.o.Lists = lists
	sum := sha256.New()
	for i := range uint32(n) {
		sum.Write([]byte(tree.Path(i) + "\n"))
	}
	h := header{V: Version, Stream: "epoch", View: "original", Digest: hex.EncodeToString(sum.Sum(nil))}
	gate := make(chan struct{}) // paths are asked for, and are not there
	defer close(gate)
	f.queue.tree = gated{f, gate}
	permutation := rand.New(rand.NewPCG(1, 2)).Perm(n)
	if err := f.queue.Take(message(h, order(0))); err != nil {
		t.Fatal(err) // makes the list
	}
	before := memory()
	began := time.Now() // what is announced, and what it takes
	for part := range slices.Chunk(permutation, 4000) {
		places := make([]uint32, len(part))
		for i, p := range part {
			places[i] = uint32(p)
		}
		testenv.Must(t, f.queue.Take(message(h, order(places...))))
	}
	t.Logf("%v, %d KiB", time.Since(began), f.queue.waiting>>10)
	if took := memory() - before; took > 12<<20 || f.queue.waiting != 4*n {
		t.Errorf("it takes %d bytes, and is taken to be %d", took, f.queue.waiting)
	}
	if s := f.queue.Stats(); s.Hinted != n+1 {
		t.Errorf("%+v", s)
	}
	for _, c := range []struct {
		h    header
		rest []byte
		want string
	}{
		{h, order(n), "there is no sample 1000000: the list has 1000000"},
		{h, []byte{1, 2, 3}, "cut short"},
		{header{V: 1, Stream: "b", View: "original", Digest: "abc"}, order(1), "the order is of another list: the mount lists 1000000 samples in original with the digest " + h.Digest},
	} {
		if err := f.queue.Take(message(c.h, c.rest)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
}

func memory() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
