package packing

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/store"
	"github.com/pipefs/pipefs/store/blob"
	"github.com/pipefs/pipefs/store/vfs"
	"github.com/pipefs/pipefs/store/vfs/faultfs"
)

// A store that was packed by plans holds what the dataset does; so it does when its index is made
// again, with or without a generation, and after plans and compactions that follow.
func TestCommit(t *testing.T) {
	dir := tempDir(t)
	m := someFiles(300)
	for round := range 4 {
		p := planOf(t, dir, m, 7)
		packShards(t, p, m)
		r, err := commitPlan(t.Context(), p, dir, 0, nil)
		if err != nil || r.Already || r.Files != p.Files || r.Tombstones != p.Tombstones {
			t.Fatalf("round %d: %+v, %v", round, r, err)
		}
		mustHold(t, dir, m)
		before := content(t, dir)
		if again, err := commitPlan(t.Context(), p, dir, 0, nil); err != nil || !again.Already {
			t.Fatalf("again: %+v, %v", again, err)
		}
		if !maps.Equal(content(t, dir), before) {
			t.Error("committed again, the store is another")
		}
		for _, lost := range [][]string{{"index"}, {"index", "CURRENT"}, {"index", "CURRENT", "generations"}} {
			clone := filepath.Join(tempDir(t), "clone")
			testenv.Must(t, os.CopyFS(clone, os.DirFS(dir)))
			for _, name := range lost {
				testenv.Must(t, os.RemoveAll(filepath.Join(clone, name)))
			}
			mustHold(t, clone, m)
		}
		if round == 1 {
			testenv.Must(t, os.WriteFile(filepath.Join(dir, CommittedName(p.ID)), []byte("damaged"), 0o644))
			if problems, err := store.Check(t.Context(), dir, store.Options{Logger: quiet}, nil); err != nil || len(problems) != 1 || problems[0].Name != CommittedName(p.ID) {
				t.Errorf("%v, %v", problems, err)
			}
			if _, err := commitPlan(t.Context(), p, dir, 0, nil); err != nil || !maps.Equal(content(t, dir), before) {
				t.Errorf("COMMITTED is not mended: %v", err)
			}
		}
		if round == 2 {
			r, err := store.Compact(t.Context(), dir, store.CompactOptions{Dead: 0.3, Logger: quiet})
			if err != nil || r.Packs == 0 {
				t.Errorf("%+v, %v", r, err)
			}
			mustHold(t, dir, m)
			if again, err := commitPlan(t.Context(), p, dir, 0, nil); err != nil || !again.Already {
				t.Fatalf("again: %+v, %v", again, err)
			}
		}
		m = m.with(func(m memory) {
			for i, name := range slices.Sorted(maps.Keys(m)) {
				switch (i + round) % 7 {
				case 0:
					delete(m, name)
				case 1, 2:
					m[name] += fmt.Sprint(" changed ", round)
				}
			}
			m[fmt.Sprintf("new%d/a.txt", round)] = "new"
		})
	}
	if _, err := commitPlan(t.Context(), planOf(t, dir, m, 3), dir, 0, nil); !errors.Is(err, ErrIncomplete) {
		t.Error(err)
	}
}

// What hinders a commit is told with what to do, and leaves the store as it was.
func TestCommitRefuses(t *testing.T) {
	m := someFiles(120)
	place := func(t *testing.T) (dir string, p, other *Plan) {
		dir = tempDir(t)
		first := planOf(t, dir, m, 2)
		packShards(t, first, m)
		_, err := commitPlan(t.Context(), first, dir, 0, nil)
		testenv.Must(t, err)
		now := m.with(func(m memory) { m["class1/new.txt"], m["class0/0000.txt"], m["z/y.txt"] = "new", "changed", "z" })
		p = planOf(t, dir, now, 5)
		packShards(t, p, now)
		other = planOf(t, dir, now.with(func(m memory) { m["other.txt"] = "o" }), 6)
		return dir, p, other
	}
	file := func(dir, name string) string { return filepath.Join(dir, filepath.FromSlash(name)) }
	packOf := func(t *testing.T, p *Plan, shard int) store.SealedPack {
		marker, err := ReadMarker(t.Context(), p.place, p.ID, shard)
		testenv.Must(t, err)
		return marker.Packs[0]
	}
	for name, c := range map[string]struct {
		damage func(t *testing.T, dir string, p, other *Plan)
		allow  int64
		class  error
		want   string
		allows bool
	}{
		"missing":           {damage: func(t *testing.T, dir string, p, _ *Plan) { remove(t, dir, MarkerName(p.ID, 1), MarkerName(p.ID, 3)) }, class: ErrIncomplete, want: "2 of 5 shards are missing: 1, 3; pack each with pipefs pack --plan DIR/plans/"},
		"missing, allowed":  {damage: func(t *testing.T, dir string, p, _ *Plan) { remove(t, dir, MarkerName(p.ID, 1), MarkerName(p.ID, 3)) }, allow: 120, allows: true},
		"missing, too many": {damage: func(t *testing.T, dir string, p, _ *Plan) { remove(t, dir, MarkerName(p.ID, 1), MarkerName(p.ID, 3)) }, allow: 1, class: ErrIncomplete, want: "2 of 5 shards are missing"},
		"damaged marker": {damage: func(t *testing.T, dir string, p, _ *Plan) {
			testenv.Must(t, os.WriteFile(file(dir, MarkerName(p.ID, 2)), []byte("x"), 0o644))
		}, allow: 1000, class: ErrIncomplete, want: "1 of 5 shards are damaged: 2; remove what they have put with pipefs commit --reset I DIR/plans/"},
		"marker of another plan": {damage: func(t *testing.T, dir string, p, other *Plan) {
			packShards(t, other, m.with(func(m memory) {
				m["class1/new.txt"], m["class0/0000.txt"], m["z/y.txt"], m["other.txt"] = "new", "changed", "z", "o"
			}), 2)
			testenv.Must(t, os.Rename(file(dir, MarkerName(other.ID, 2)), file(dir, MarkerName(p.ID, 2))))
		}, class: ErrIncomplete, want: "shard 2: "},
		"marker of another shard": {damage: func(t *testing.T, dir string, p, _ *Plan) {
			testenv.Must(t, os.Rename(file(dir, MarkerName(p.ID, 1)), file(dir, MarkerName(p.ID, 2))))
		}, class: ErrIncomplete, want: "it is of shard 1"},
		"pack missing": {damage: func(t *testing.T, dir string, p, _ *Plan) {
			pack := packOf(t, p, 1)
			remove(t, dir, pack.File())
		}, allow: 1000, class: ErrIncomplete, want: "is missing"},
		"pack shorter": {damage: func(t *testing.T, dir string, p, _ *Plan) {
			pack := packOf(t, p, 1)
			testenv.Must(t, os.Truncate(file(dir, pack.File()), pack.Size-1))
		}, class: ErrIncomplete, want: "and its marker says"},
		"segment missing": {damage: func(t *testing.T, dir string, p, _ *Plan) {
			pack := packOf(t, p, 4)
			remove(t, dir, pack.SegmentFile())
		}, class: ErrIncomplete, want: ".segment is missing"},
		"stale": {damage: func(t *testing.T, dir string, _, other *Plan) {
			packShards(t, other, m.with(func(m memory) {
				m["class1/new.txt"], m["class0/0000.txt"], m["z/y.txt"], m["other.txt"] = "new", "changed", "z", "o"
			}))
			_, err := commitPlan(t.Context(), other, dir, 0, nil)
			testenv.Must(t, err)
		}, class: store.ErrStale, want: "when the plan was made generation 000001-"},
		"plan removed": {damage: func(t *testing.T, dir string, p, _ *Plan) { remove(t, dir, PlanName(p.ID)) }, want: "pipefs gc has removed the plan"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, p, other := place(t)
			c.damage(t, dir, p, other)
			before := content(t, dir)
			r, err := commitPlan(t.Context(), p, dir, c.allow, nil)
			if c.allows {
				if err != nil || r.Left == 0 || len(r.Missing) != 2 {
					t.Fatalf("%+v, %v", r, err)
				}
				return
			}
			if err == nil || c.class != nil && !errors.Is(err, c.class) || !strings.Contains(strings.ReplaceAll(err.Error(), dir, "DIR"), c.want) {
				t.Errorf("%v", err)
			}
			after := content(t, dir)
			if errors.Is(err, ErrIncomplete) { // what the error says to do
				defer func() {
					now := m.with(func(m memory) { m["class1/new.txt"], m["class0/0000.txt"], m["z/y.txt"] = "new", "changed", "z" })
					if _, err := p.Reset(t.Context(), dir, vfs.OS, 0, p.Shards-1); err != nil {
						t.Fatal(err)
					}
					packShards(t, p, now)
					if _, err := commitPlan(t.Context(), p, dir, 0, nil); err != nil {
						t.Fatal(err)
					}
					mustHold(t, dir, now)
					if _, err := p.Reset(t.Context(), dir, vfs.OS, 0, 0); !errors.Is(err, ErrCommitted) {
						t.Errorf("reset when it was committed: %v", err)
					}
				}()
			}
			if !maps.Equal(before, after) {
				for name := range after {
					if before[name] != after[name] {
						t.Errorf("%s is another", name)
					}
				}
				t.Errorf("the store is another: %d files, were %d", len(after), len(before))
			}
		})
	}
}

func remove(t *testing.T, dir string, names ...string) {
	t.Helper()
	for _, name := range names {
		testenv.Must(t, os.Remove(filepath.Join(dir, filepath.FromSlash(name))))
	}
}

// Files that are gone or changed since the plan are left out, if that many may be, and the next plan
// has them.
func TestCommitLeftOut(t *testing.T) {
	dir := tempDir(t)
	m := someFiles(60)
	p := planOf(t, dir, m, 3)
	now := m.with(func(m memory) {
		delete(m, "class0/0000.txt")
		m["class1/0001.txt"] = "changed since"
	})
	packShards(t, p, now)
	before := content(t, dir)
	_, err := commitPlan(t.Context(), p, dir, 1, nil)
	if !errors.Is(err, ErrIncomplete) || !strings.Contains(err.Error(), "2 of 66 entries are left out, by shards 0") || !strings.Contains(err.Error(), "left out: class0/0000.txt: ") {
		t.Error(err)
	}
	if !maps.Equal(content(t, dir), before) {
		t.Error("the store is another")
	}
	if r, err := commitPlan(t.Context(), p, dir, 2, nil); err != nil || r.Left != 2 || len(r.Failures) != 2 {
		t.Fatalf("%+v, %v", r, err)
	}
	mustHold(t, dir, now.with(func(m memory) { delete(m, "class1/0001.txt") }))
	next := planOf(t, dir, now, 1)
	if next.Files != 1 {
		t.Errorf("%+v", next.Totals)
	}
}

// Of two plans over one store that are committed at once, one is, and the other one says that it is stale; a
// plan that is committed twice at once is committed.
func TestCommitsAtOnce(t *testing.T) {
	for _, same := range []bool{true, false} {
		dir := tempDir(t)
		m := someFiles(100)
		first := planOf(t, dir, m, 2)
		packShards(t, first, m)
		_, err := commitPlan(t.Context(), first, dir, 0, nil)
		testenv.Must(t, err)
		a, b := m.with(func(m memory) { m["a.txt"] = "a" }), m.with(func(m memory) { m["b.txt"] = "b" })
		if same {
			b = a
		}
		plans := []*Plan{planOf(t, dir, a, 2), planOf(t, dir, b, 2)}
		packShards(t, plans[0], a)
		packShards(t, plans[1], b)
		errs := make([]error, 2)
		var both sync.WaitGroup
		for i, p := range plans {
			both.Go(func() {
				for {
					if _, errs[i] = commitPlan(t.Context(), p, dir, 0, nil); !errors.Is(errs[i], store.ErrLocked) {
						return
					}
					time.Sleep(time.Millisecond)
				}
			})
		}
		both.Wait()
		stale := 0
		for _, err := range errs {
			if errors.Is(err, store.ErrStale) {
				stale++
			} else if err != nil {
				t.Error(err)
			}
		}
		if want := map[bool]int{true: 0, false: 1}[same]; stale != want {
			t.Fatalf("%d are stale: %v", stale, errs)
		}
		if errs[0] == nil {
			mustHold(t, dir, a)
		} else {
			mustHold(t, dir, b)
		}
	}
}

// A commit during a shard: the shard that is not done is missing, or left out; what it puts afterwards is not in
// the store, and the next plan has its files.
func TestCommitDuringShard(t *testing.T) {
	dir := tempDir(t)
	m := someFiles(100)
	p := planOf(t, dir, m, 4)
	packShards(t, p, m, 0, 1, 3)
	if _, err := commitPlan(t.Context(), p, dir, 0, nil); err == nil || !strings.Contains(err.Error(), "1 of 4 shards are missing: 2;") {
		t.Error(err)
	}
	if _, err := commitPlan(t.Context(), p, dir, 1000, nil); err != nil {
		t.Fatal(err)
	}
	packShards(t, p, m, 2)
	testenv.Must(t, os.RemoveAll(filepath.Join(dir, "CURRENT"))) // the index is made again
	s, err := store.Open(dir, store.Options{Logger: quiet})
	testenv.Must(t, err)
	if n := s.Stats().Samples; n == 0 || n > 80 {
		t.Errorf("%d samples", n)
	}
	testenv.Must(t, s.Close())
	next := planOf(t, dir, m, 1)
	packShards(t, next, m)
	_, err = commitPlan(t.Context(), next, dir, 0, nil)
	testenv.Must(t, err)
	mustHold(t, dir, m)
}

// Every operation of a commit in turn fails, or the power fails before it: the store holds what it held, or what the
// plan adds, and committing again completes it.
func TestCommitFaults(t *testing.T) {
	disk := tempDir(t)
	start := filepath.Join(disk, "store")
	m := someFiles(60)
	first := planOf(t, start, m, 2)
	packShards(t, first, m)
	_, err := commitPlan(t.Context(), first, start, 0, nil)
	testenv.Must(t, err)
	now := m.with(func(m memory) { m["new.txt"], m["class0/0000.txt"] = "new", "changed"; delete(m, "class1/0001.txt") })
	id := planOf(t, start, now, 3)
	packShards(t, id, now)
	again := func(dir, what string) {
		t.Helper()
		if before, after := holds(dir, m), holds(dir, now); before != nil && after != nil {
			t.Fatalf("%s: %v, %v", what, before, after)
		}
		place, err := blob.OpenDirectory(dir)
		testenv.Must(t, err)
		p, err := Open(t.Context(), place, id.ID)
		testenv.Must(t, err)
		if _, err := commitPlan(t.Context(), p, dir, 0, nil); err != nil {
			t.Fatalf("%s: again: %v", what, err)
		}
		mustHold(t, dir, now)
	}
	failed := 0
	for n := int64(1); ; n++ {
		dir := filepath.Join(tempDir(t), "store")
		testenv.Must(t, os.CopyFS(dir, os.DirFS(start)))
		fault := []error{syscall.EIO, syscall.ENOSPC, faultfs.ErrShort}[n%3]
		fsys := &faultfs.FS{Base: vfs.OS, Inject: faultfs.Nth(n, fault)}
		if n%2 == 0 {
			fsys.Inject = faultfs.From(n, fault)
		}
		place, err := blob.OpenDirectory(dir)
		testenv.Must(t, err)
		p, err := Open(t.Context(), place, id.ID)
		testenv.Must(t, err)
		if _, err := commitPlan(t.Context(), p, dir, 0, fsys); err != nil {
			failed++
		}
		again(dir, fmt.Sprintf("operation %d, %v", n, fault))
		if fsys.Ops() < n {
			break
		}
	}
	if failed < 20 {
		t.Errorf("only %d faults hit", failed)
	}
	crash, err := faultfs.NewCrashFS(disk)
	testenv.Must(t, err)
	crashes := 0
	_, err = commitPlan(t.Context(), id, start, 0, &faultfs.FS{Base: crash, Inject: func(op faultfs.Op) error {
		switch op.Kind {
		case "read", "stat", "open", "list":
			return nil
		}
		crashes++
		clone := filepath.Join(tempDir(t), "clone")
		testenv.Must(t, crash.Clone(clone))
		again(filepath.Join(clone, "store"), fmt.Sprintf("crash before %s %s", op.Kind, op.Name))
		return nil
	}})
	testenv.Must(t, err)
	if crashes < 15 {
		t.Errorf("%d crashes", crashes)
	}
	mustHold(t, start, now)
	testenv.Proved(t, "faults", failed+crashes)
}

func TestRanges(t *testing.T) {
	for want, numbers := range map[string][]int{"": nil, "7": {7}, "7, 12..13": {13, 7, 12, 12}, "0..2": {2, 1, 0}} {
		if got := Ranges(numbers); got != want {
			t.Errorf("%v: %q", numbers, got)
		}
	}
	var many []int
	for i := range 50 {
		many = append(many, 2*i)
	}
	if got := Ranges(many); !strings.HasSuffix(got, "38 and 30 more") {
		t.Error(got)
	}
}

// What is removed as garbage is never needed: of a store with all that there can be of no use, of each age, whatever is left
// holds the dataset.
func TestGarbage(t *testing.T) {
	dir := tempDir(t)
	m := someFiles(150)
	now := time.Now()
	age := func(days int) { // all that is there and has no age yet
		for name := range content(t, dir) {
			file := filepath.Join(dir, name)
			info, err := os.Stat(file)
			testenv.Must(t, err)
			if now.Sub(info.ModTime()) < time.Hour {
				at := now.Add(-time.Duration(days) * 24 * time.Hour)
				testenv.Must(t, os.Chtimes(file, at, at))
			}
		}
	}
	old := planOf(t, dir, m, 3) // never committed: another one is
	packShards(t, old, m)
	first := planOf(t, dir, m, 4)
	packShards(t, first, m)
	_, err := commitPlan(t.Context(), first, dir, 0, nil)
	testenv.Must(t, err)
	age(40)
	m = m.with(func(m memory) {
		for i := range 100 {
			delete(m, fmt.Sprintf("class%d/%04d.txt", i%5, i))
		}
		m["n.txt"] = "n"
	})
	second := planOf(t, dir, m, 2)
	packShards(t, second, m)
	_, err = commitPlan(t.Context(), second, dir, 0, nil)
	testenv.Must(t, err)
	age(30)
	r, err := store.Compact(t.Context(), dir, store.CompactOptions{Dead: 0.4, Logger: quiet})
	if err != nil || r.Packs == 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	age(20)
	m = m.with(func(m memory) { m["o.txt"] = "o" })
	third := planOf(t, dir, m, 1)
	packShards(t, third, m)
	_, err = commitPlan(t.Context(), third, dir, 0, nil)
	testenv.Must(t, err)
	age(10)
	open := planOf(t, dir, m.with(func(m memory) { m["p.txt"] = "p" }), 1)
	packShards(t, open, m.with(func(m memory) { m["p.txt"] = "p" }))
	age(1)
	mustHold(t, dir, m)

	was := -1
	for _, days := range []float64{50, 35, 25, 15, 5, 0.5, 0} {
		clone := filepath.Join(tempDir(t), "clone")
		testenv.Must(t, copyTimes(dir, clone))
		place, err := blob.OpenDirectory(clone)
		testenv.Must(t, err)
		var listed []store.Listed
		for page, err := range place.List(t.Context(), "", true) {
			testenv.Must(t, err)
			for _, i := range page {
				listed = append(listed, store.Listed{Name: i.Name, Size: i.Size, Modified: i.Modified})
			}
		}
		waste, err := store.Garbage(vfs.OS, clone, listed, now.Add(-time.Duration(days*24*float64(time.Hour))))
		testenv.Must(t, err)
		if len(waste) < was {
			t.Errorf("%v days: %d things, and fewer than of greater age", days, len(waste))
		}
		was = len(waste)
		packs, gone := 0, map[string]bool{}
		for i, w := range waste {
			testenv.Must(t, os.Remove(filepath.Join(clone, w.Name)))
			gone[w.Name] = true
			if strings.HasSuffix(w.Name, ".pack") {
				packs++
			}
			if i%5 == 0 || i == len(waste)-1 {
				mustHold(t, clone, m)
				rebuilt := filepath.Join(tempDir(t), "rebuilt")
				testenv.Must(t, copyTimes(clone, rebuilt))
				testenv.Must(t, errors.Join(os.Remove(filepath.Join(rebuilt, "CURRENT")), os.RemoveAll(filepath.Join(rebuilt, "index"))))
				if err := holds(rebuilt, m); err != nil {
					t.Fatalf("%v days, %d of %d removed: the index is made again: %v", days, i+1, len(waste), err)
				}
			}
		}
		t.Logf("%v days: %d things, %d packs", days, len(waste), packs)
		for name, want := range map[string]bool{
			PlanName(old.ID): days <= 35, PlanName(first.ID): days < 40, PlanName(open.ID): days < 1,
			CommittedName(third.ID): false, "CURRENT": false, "FORMAT": false,
		} {
			if gone[name] != want {
				t.Errorf("%v days: %s is removed: %v", days, name, gone[name])
			}
		}
	}
	if was == 0 {
		t.Error("nothing was garbage")
	}
}

// copyTimes copies a directory with its times.
func copyTimes(from, to string) error {
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		return err
	}
	return filepath.WalkDir(from, func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, name)
		if err != nil {
			return err
		}
		return os.Chtimes(filepath.Join(to, rel), info.ModTime(), info.ModTime())
	})
}

// tempDir is a directory in memory: flushing to a disk takes most of the time of these tests.
func tempDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "pipefs-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}
