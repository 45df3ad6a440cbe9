package cachedir

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/pipefs/pipefs/internal/testenv"
)

func takeBlocks(t *testing.T, r *Root, place string, own int64) *Slot {
	t.Helper()
	s, err := r.TakeBlocks(place, "/mnt", own)
	testenv.Must(t, err)
	return s
}

// blocks writes files of one megabyte each, the first ones the oldest.
func blocks(t *testing.T, s *Slot, names ...string) {
	t.Helper()
	testenv.Must(t, s.Reserve(int64(len(names))*mb))
	testenv.Must(t, os.MkdirAll(s.Dir, 0o700))
	for i, name := range names {
		path := filepath.Join(s.Dir, name)
		testenv.Must(t, os.WriteFile(path, make([]byte, mb), 0o600))
		when := time.Now().Add(time.Duration(i-100) * time.Minute)
		testenv.Must(t, os.Chtimes(path, when, when))
	}
}

func files(t *testing.T, s *Slot) (names []string) {
	t.Helper()
	all, err := os.ReadDir(s.Dir)
	testenv.Must(t, err)
	for _, e := range all {
		names = append(names, e.Name())
	}
	return names
}

// Blocks share the limit with overlays. Of a slot of blocks that nobody uses the oldest files go,
// and no more than need be.
func TestBlocks(t *testing.T) {
	r := limited(t, 20*mb)
	old := takeBlocks(t, r, "s3://bucket/a", 0)
	blocks(t, old, "1", "2", "3", "4", "5", "6", "7", "8")
	kill(old)
	s := take(t, r, "/data/b")
	fill(t, s, 10*mb)
	if got := files(t, old); len(got) != 8 {
		t.Errorf("left: %q", got)
	}
	fill(t, s, 15*mb) // and one more is reserved
	if got := files(t, old); !slices.Equal(got, []string{"5", "6", "7", "8"}) {
		t.Errorf("left: %q", got)
	}
	// It is taken again, with what is left, beside one in use.
	again := takeBlocks(t, r, "s3://bucket/a", 0)
	defer again.Release()
	beside := takeBlocks(t, r, "s3://bucket/a", 0)
	if again.Dir != old.Dir || beside.Dir == old.Dir {
		t.Errorf("took %s and %s", again.Dir, beside.Dir)
	}
	if dirs, err := again.Beside(); err != nil || !slices.Equal(dirs, []string{again.Dir, beside.Dir}) {
		t.Errorf("beside: %q, %v", dirs, err)
	}
	beside.Release()
	entries, err := r.List()
	testenv.Must(t, err)
	kinds := map[string]int{}
	for _, e := range entries {
		kinds[e.Kind]++
	}
	if kinds[Blocks] != 2 || kinds[Overlay] != 1 {
		t.Errorf("%+v", entries)
	}
	if removed, left, err := r.Clear("s3://bucket/a"); err != nil || len(removed) != 1 || len(left) != 1 {
		t.Errorf("%+v, %+v, %v", removed, left, err)
	}
}

// A limit for blocks holds for all of them together; a slot that holds more is reduced when it
// is taken.
func TestLimitOfBlocks(t *testing.T) {
	r := limited(t, 1000*mb)
	a := takeBlocks(t, r, "s3://bucket/a", 6*mb)
	blocks(t, a, "1", "2", "3", "4", "5")
	b := takeBlocks(t, r, "s3://bucket/b", 6*mb)
	if err := b.Reserve(3 * mb); !errors.Is(err, ErrFull) {
		t.Error(err)
	}
	other := take(t, r, "/data")
	fill(t, other, 100*mb)
	a.Release()
	b.refused = time.Time{}
	testenv.Must(t, b.Reserve(3*mb))
	if got := files(t, a); len(got) > 3 || len(got) == 0 {
		t.Errorf("left: %q", got)
	}
	b.Release()
	a = takeBlocks(t, r, "s3://bucket/a", 2*mb)
	defer a.Release()
	if got := files(t, a); len(got) == 0 || len(got) > 2 || got[len(got)-1] != "5" {
		t.Errorf("left: %q", got)
	}
}

// What is known of a place counts, stays while anybody shares it, and goes as slots do.
func TestKnown(t *testing.T) {
	r := limited(t, 100*mb)
	const place = "s3://bucket/a"
	entry := func() *Entry {
		t.Helper()
		all, err := r.List()
		testenv.Must(t, err)
		k := slices.IndexFunc(all, func(e Entry) bool { return e.Kind == Known })
		if k < 0 {
			return nil
		}
		return &all[k]
	}
	share := func() io.Closer {
		t.Helper()
		s, err := r.Share(place)
		testenv.Must(t, err)
		return s
	}
	one, other := share(), share()
	write(t, r.KnownDir(place), 60*mb)
	if e := entry(); e == nil || e.Dataset != place || e.Bytes != 60*mb || !e.InUse {
		t.Fatalf("%+v", e)
	}
	slot := take(t, r, "/data/b")
	fill(t, slot, 30*mb)
	if err := slot.Reserve(50 * mb); !errors.Is(err, ErrFull) {
		t.Errorf("60 of 100 MB are taken: %v", err)
	}
	testenv.Must(t, one.Close())
	if removed, used, err := r.Clear(place); err != nil || len(removed) != 0 || len(used) != 1 {
		t.Errorf("%+v, %+v, %v", removed, used, err)
	}
	testenv.Must(t, other.Close())
	if e := entry(); e == nil || e.InUse {
		t.Fatalf("%+v", e)
	}
	slot.refused = time.Time{}
	fill(t, slot, 50*mb)
	if e := entry(); e != nil {
		t.Errorf("%+v", e)
	}
	testenv.Must(t, share().Close())
	if e := entry(); e != nil {
		t.Errorf("where nothing was kept: %+v", e)
	}
}
