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
