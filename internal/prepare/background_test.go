package prepare

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pipefs/pipefs/internal/serve"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/mixer"
)

// use resolves a file in views, as a mount does.
func use(t *testing.T, s *serve.Server, specs ...string) {
	t.Helper()
	a, err := s.Stat("a.jpg", false)
	testenv.Must(t, err)
	for i, spec := range specs {
		_, err := s.Resolve(t.Context(), serve.Key(i), serve.File{Path: "a.jpg", Identity: a.Identity}, view(t, spec), serve.Planned)
		testenv.Must(t, err)
	}
}

func TestViewsThatAreUsedArePrepared(t *testing.T) {
	defer goleak.VerifyNone(t)
	overlay := openOverlay(t)
	defer overlay.Close()
	d := openDataset(t, nil)
	s := serving(t, serve.Options{Source: d, Dataset: d, Overlay: overlay})
	b := Start(s, Options{Views: true})
	use(t, s, "original",
		"bmp", // in closed form and not smaller: nothing to keep
		"scan3",
		"scan5",   // the same representation
		"bmp-own") // the same files
	testenv.EventuallyIs(t, "two samples are prepared", func() bool { return b.Stats().Prepared == 2 && b.Stats().View == "" })
	if n := s.Stats(); n.Produced != 2 || n.Kept != 2 {
		t.Errorf("two JPEGs were to be prepared: %+v", n)
	}
	if n := len(b.known); n != 2 {
		t.Errorf("%d views were prepared, want bmp and the scans", n)
	}
	testenv.Must(t, b.Close())
	testenv.Must(t, s.Close())
}

// TestNobodyWantsPreparation: without an overlay, and where it is not wanted.
func TestNobodyWantsPreparation(t *testing.T) {
	d := openDataset(t, nil)
	overlay := openOverlay(t)
	defer overlay.Close()
	for _, o := range []serve.Options{{Source: d, Dataset: d}, {Source: d, Dataset: d, Overlay: overlay}} {
		s := serving(t, o)
		b := Start(s, Options{Views: o.Overlay == nil})
		use(t, s, "scan3")
		testenv.Must(t, b.Close())
		if n := b.Stats(); n.Seen != 0 || len(b.known) != 0 {
			t.Errorf("%+v", n)
		}
	}
}

// stopping is a dataset whose reads hang.
type stopping struct {
	hangs, goesOn chan bool
}

func (s *stopping) Begin() time.Time {
	select {
	case <-s.goesOn:
	case s.hangs <- true:
		<-s.goesOn
	}
	return time.Time{}
}

func (*stopping) Done(time.Time, int) {}

// TestCloseLeavesTheBackground wants Close not to wait for a thread that gets no
// processor, and that one to keep nothing afterwards.
func TestCloseLeavesTheBackground(t *testing.T) {
	stop := &stopping{hangs: make(chan bool), goesOn: make(chan bool)}
	d := openDataset(t, stop)
	overlay := openOverlay(t)
	s := serving(t, serve.Options{Source: d, Dataset: d, Overlay: overlay, Workers: 1})
	b := Start(s, Options{Views: true, Workers: 1})
	b.patience = time.Millisecond
	b.use(view(t, "scan5"))
	<-stop.hangs
	testenv.Must(t, b.Close())
	testenv.Must(t, s.Close())
	testenv.Must(t, overlay.Close())
	close(stop.goesOn)
	b.wg.Wait()
	if n := s.Stats(); n.Kept != 0 || n.Panics != 0 {
		t.Errorf("%d kept, %d panics after the end", n.Kept, n.Panics)
	}
}

// TestCount: the cache's policy is told how many files there are, in all directories of a
// dataset, or by the store.
func TestCount(t *testing.T) {
	d := openDataset(t, nil)
	packed := packed(t, d.Root(), t.TempDir()+"/store")
	for what, o := range map[string]serve.Options{
		"dataset": {Source: d, Dataset: d},
		"store":   {Source: serve.StoreTree(packed), Store: packed},
	} {
		var err error
		o.Cache, err = mixer.NewCache(mixer.LiquidCache, 1<<20, 10)
		testenv.Must(t, err)
		s := serving(t, o)
		b := Start(s, Options{})
		testenv.EventuallyIs(t, "the files of the "+what+" are counted", func() bool { return s.Stats().Cache.Population == 4 })
		testenv.Must(t, b.Close())
	}
}

func TestThrottleYieldsToOthersOnly(t *testing.T) {
	const s = time.Second
	for name, test := range map[string]struct {
		duty float64
		u    usage
		want float64
	}{
		"an idle machine":               {0.25, usage{total: 2 * s, idle: 2 * s}, 0.5},
		"full with our own work":        {1, usage{total: 2 * s, own: 2 * s}, 1},
		"full with others":              {1, usage{total: 2 * s, own: s}, 0.5},
		"others, and a little idle":     {0.25, usage{total: 2 * s, idle: s / 2}, 0.25},
		"others, but a core is free":    {0.5, usage{total: 2 * s, idle: s, own: s / 2}, 1},
		"full with others for long":     {leastDuty, usage{total: 2 * s}, leastDuty},
		"nothing to see in that moment": {0.5, usage{}, 1},
	} {
		if got := adjust(test.duty, test.u); got != test.want {
			t.Errorf("%s: %v becomes %v, want %v", name, test.duty, got, test.want)
		}
	}
}

func TestThrottleRests(t *testing.T) {
	fresh := usage{at: time.Now().Add(time.Hour)} // no look is due
	for _, test := range []struct {
		duty         float64
		worked, want time.Duration
	}{
		{1, 3 * time.Millisecond, 0},
		{0.5, 3 * time.Millisecond, 3 * time.Millisecond},
		{leastDuty, 3 * time.Millisecond, 297 * time.Millisecond},
		{leastDuty, time.Second, longestRest},
	} {
		c := &throttle{last: fresh, duty: test.duty}
		if got := c.rest(test.worked); got.Round(time.Microsecond) != test.want {
			t.Errorf("duty %v, worked %v: rest %v, want %v", test.duty, test.worked, got, test.want)
		}
	}
}

func TestUsage(t *testing.T) {
	u, ok := parseUsage([]byte("cpu  100 50 25 1000 10 5 5 5 0 0\ncpu0 1 2 3\n"))
	if !ok || u.total != 12*time.Second || u.idle != 10100*time.Millisecond {
		t.Errorf("%+v, %v", u, ok)
	}
	for _, bad := range []string{"", "cpu 1 2 3\n", "intr 1 2 3 4 5 6 7 8 9\n", "cpu a b c d e f g h\n"} {
		if _, ok := parseUsage([]byte(bad)); ok {
			t.Errorf("%q was understood", bad)
		}
	}
	before, ok := cpuUsage()
	if !ok {
		t.Fatal("/proc/stat of this machine was not understood")
	}
	for start := time.Now(); time.Since(start) < 50*time.Millisecond; {
	}
	after, _ := cpuUsage()
	if d := after.since(before); d.own <= 0 || d.total < d.idle {
		t.Errorf("after 50 ms of work: %+v", d)
	}
}
