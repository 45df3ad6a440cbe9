package views

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/internal/testmount"
)

// readAll reads all files with so many readers, and returns how long that took.
func readAll(t *testing.T, names []string, readers int) time.Duration {
	t.Helper()
	began := time.Now()
	var group sync.WaitGroup
	for r := range readers {
		group.Go(func() {
			for i := r; i < len(names); i += readers {
				if _, err := os.ReadFile(names[i]); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	return time.Since(began)
}

// TestLimits: --limit-read and --limit-reads hold for whatever a mount reads, by
// whatever way it goes to the reader. Nothing is on a cold disk here: the limit is
// for the daemon, and holds for what the page cache has as well.
func TestLimits(t *testing.T) {
	program := places(t)
	source := dataset(t, "20", "-copies", "2", "-width", "640", "-height", "480")
	store := filepath.Join(t.TempDir(), "store")
	testmount.Command(t, testmount.Home(t), "pack", "--originals", "keep", source, store)
	files, size := list(t, source)
	full := open(t, program, store)
	_, scans := list(t, filepath.Join(full.Dir, "scan5"))
	_, all := list(t, filepath.Join(full.Dir, "scan10"))
	const seconds = 0.8
	for _, c := range []struct {
		source, view string
		bytes        int64 // that have to be read for the view
		computed     bool  // which takes its time, too
	}{
		{source, "original", size, false}, {source, "scan5", size, true}, {source, "ppm", size, true},
		{store, "original", size, false}, {store, "scan5", scans, false}, {store, "ppm", all, true},
	} {
		for _, cache := range []string{"page", "daemon"} {
			rate := int64(float64(c.bytes) / seconds)
			t.Run(fmt.Sprintf("%s of %s, %s", c.view, filepath.Base(c.source), cache), func(t *testing.T) {
				t.Parallel()
				options := []string{"--cache", cache, "--limit-read", strconv.FormatInt(rate, 10) + "B/s"}
				if cache == "daemon" && c.source == store {
					options = append(options, "--direct") // past the page cache
				}
				hold(t, seconds, c.computed, func() time.Duration {
					m := open(t, program, c.source, options...)
					defer closed(t, m)
					return readAll(t, below(t, m, c.view, source, files), 3)
				})
			})
		}
	}
	// A read at least for each file.
	for _, from := range []string{source, store} {
		t.Run("reads of "+filepath.Base(from), func(t *testing.T) {
			t.Parallel()
			hold(t, 1, true, func() time.Duration {
				m := open(t, program, from, "--limit-reads", strconv.Itoa(len(files)))
				defer closed(t, m)
				return readAll(t, below(t, m, "original", source, files), 3)
			})
		})
	}
}

func closed(t *testing.T, m *Mount) {
	if err := m.Close(); err != nil {
		t.Error(err)
	}
}

// below are the names of a dataset's files in a view.
func below(t *testing.T, m *Mount, view, source string, files []string) (names []string) {
	t.Helper()
	for _, name := range files {
		rel, err := filepath.Rel(source, name)
		testenv.Must(t, err)
		names = append(names, filepath.Join(m.Dir, view, rel))
	}
	return names
}

// hold checks that something takes as many seconds as a limit allows: never less, but
// for what may come at once after a pause; and less than twice as much in one of a few
// tries, since the machine may be busy, unless there is other work to be done as well.
func hold(t *testing.T, seconds float64, more bool, run func() time.Duration) {
	t.Helper()
	var took []float64
	for range 4 {
		s := run().Seconds()
		took = append(took, s)
		if s < seconds*0.9 {
			t.Fatalf("took %.2f s; the limit allows %.2f", s, seconds)
		}
		if more || s < seconds*2 {
			t.Logf("took %.2f s of %.2f", s, seconds)
			return
		}
	}
	t.Errorf("took %.2f s where the limit allows %.2f", took, seconds)
}
