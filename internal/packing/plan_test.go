package packing

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pipefs/pipefs/internal/prepare/pack"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/store"
	"github.com/pipefs/pipefs/store/blob"
)

// made is a tree of files that are never read: dirs directories of files each.
type made struct {
	dirs, files int
}

func (m made) Root() (Entry, error) { return Entry{Kind: store.Dir, Mode: 0o755}, nil }

func (m made) Members(_ context.Context, dir string, yield func(Entry, error) bool) bool {
	if dir == "" {
		for i := range m.dirs {
			if !yield(Entry{Path: fmt.Sprintf("class%05d", i), Kind: store.Dir, Mode: 0o755}, nil) {
				return false
			}
		}
		return true
	}
	for i := range m.files {
		e := Entry{Path: fmt.Sprintf("%s/%s_%07d.JPEG", dir, dir, i), Kind: store.File, Mode: 0o644}
		e.Identity.Size = int64(i) * 977 % 100_000
		e.Identity.Version[3] = byte(i)
		if !yield(e, nil) {
			return false
		}
	}
	return true
}

func making(t testing.TB, m Tree) *Making {
	place, err := blob.OpenDirectory(t.TempDir())
	testenv.Must(t, err)
	return &Making{
		Place: place, Tree: m, Dataset: "/data", Temp: t.TempDir(), ShardBytes: 1 << 20,
		Current:  func(*store.Sample) bool { return true },
		Verbatim: func(string, int64) bool { return false },
		Warn:     func(path string, err error) { t.Errorf("%s: %v", path, err) },
		Options:  Options{RecordImages: 1, RecordBytes: 256 << 20, PackBytes: 256 << 20, Order: store.OrderPath},
	}
}

// entriesOf reads a plan back, shard by shard.
func entriesOf(t testing.TB, p *Plan) (all []Entry, rows []Row) {
	t.Helper()
	for i := range p.Shards {
		r, err := p.Row(t.Context(), i)
		testenv.Must(t, err)
		block, err := p.Block(t.Context(), r)
		testenv.Must(t, err)
		testenv.Must(t, p.EachEntry(r, block, func(seq int64, e Entry) error {
			if want := p.FirstSeq + int64(len(all)); seq != want {
				t.Fatalf("%s: number %d, want %d", e.Path, seq, want)
			}
			all = append(all, e)
			return nil
		}))
		rows = append(rows, r)
	}
	return all, rows
}

// TestPlan: whatever the order and the number of shards, a plan has each entry once, in shards of about
// equal bytes, and is the same each time.
func TestPlan(t *testing.T) {
	tree := made{dirs: 30, files: 40}
	want, _ := entriesOf(t, mustMake(t, making(t, tree)))
	if len(want) != 1+30+30*40 || !slices.IsSortedFunc(want, func(a, b Entry) int { return comparePaths(a.Path, b.Path) }) {
		t.Fatalf("%d entries", len(want))
	}
	for _, shards := range []int{0, 1, 7, 1500} {
		for _, order := range []store.Order{store.OrderPath, store.OrderShuffle} {
			m := making(t, tree)
			m.Shards, m.Options.Order, m.Options.Seed = shards, order, 7
			p := mustMake(t, m)
			again := mustMake(t, m) // over the same object
			got, rows := entriesOf(t, p)
			if again.ID != p.ID || shards > 0 && p.Shards != shards {
				t.Fatalf("%d shards, %s: %d shards, plan %x and then %x", shards, order, p.Shards, p.ID, again.ID)
			}
			if order == store.OrderShuffle {
				if slices.IsSortedFunc(got[31:], func(a, b Entry) int { return comparePaths(a.Path, b.Path) }) {
					t.Error("not shuffled")
				}
				slices.SortFunc(got, func(a, b Entry) int { return comparePaths(a.Path, b.Path) })
			}
			if !slices.Equal(got, want) {
				t.Errorf("%d shards, %s: other entries", shards, order)
			}
			for i, r := range rows {
				weight := r.Bytes + r.Entries*entryCost
				most := int64(1 << 20)
				if shards > 0 {
					most = (p.Bytes+p.Entries()*entryCost)/int64(shards) + 105_000
				}
				if weight > most {
					t.Fatalf("%d shards, %s: shard %d weighs %d, more than %d", shards, order, i, weight, most)
				}
			}
		}
	}
}

func mustMake(t testing.TB, m *Making) *Plan {
	t.Helper()
	p, err := m.Make(t.Context())
	testenv.Must(t, err)
	opened, err := Open(t.Context(), m.Place, p.ID)
	testenv.Must(t, err)
	return opened
}

// TestDamage: a flipped byte of a plan is an error for whoever needs it, and never another entry.
func TestDamage(t *testing.T) {
	dir := t.TempDir()
	place, err := blob.OpenDirectory(dir)
	testenv.Must(t, err)
	m := making(t, made{dirs: 2, files: 5})
	m.Place, m.Shards = place, 3
	p := mustMake(t, m)
	want, _ := entriesOf(t, p)
	file := filepath.Join(dir, PlanName(p.ID))
	whole, err := os.ReadFile(file)
	testenv.Must(t, err)
	read := func() (all []Entry, err error) {
		p, err := Open(t.Context(), place, p.ID)
		if err != nil {
			return nil, err
		}
		for i := range p.Shards {
			r, err := p.Row(t.Context(), i)
			if err != nil {
				return nil, err
			}
			block, err := p.Block(t.Context(), r)
			if err != nil {
				return nil, err
			}
			if err := p.EachEntry(r, block, func(_ int64, e Entry) error { all = append(all, e); return nil }); err != nil {
				return nil, err
			}
		}
		return all, nil
	}
	for i := range whole {
		b := slices.Clone(whole)
		b[i] ^= 1 << (i % 8)
		testenv.Must(t, os.WriteFile(file, b, 0o600))
		if got, err := read(); !errors.Is(err, ErrPlan) && (err != nil || !slices.Equal(got, want)) {
			t.Fatalf("byte %d of %d: %v", i, len(whole), err)
		} else if err == nil && i < len(whole)-trailerSize {
			t.Fatalf("byte %d of %d: not noticed", i, len(whole))
		}
	}
	testenv.Proved(t, "damage", len(whole))
	for _, n := range []int{0, 1, trailerSize, len(whole) / 2, len(whole) - 1} {
		testenv.Must(t, os.WriteFile(file, whole[len(whole)-n:], 0o600))
		if n == len(whole)-1 {
			testenv.Must(t, os.WriteFile(file, whole[:n], 0o600))
		}
		if _, err := read(); !errors.Is(err, ErrPlan) || !strings.Contains(err.Error(), "plan again") {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	if _, err := Open(t.Context(), place, store.ID{1}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a plan that is not there: %v", err)
	}
}

// FuzzEntry: whatever a block holds, it is read as entries or not at all, and what is read is written the same way.
func FuzzEntry(f *testing.F) {
	e := Entry{Path: "a/b.jpg", Kind: store.File, Mode: 0o644, Version: "etag"}
	f.Add(appendEntry(nil, &e, "a/a.jpg"), "a/a.jpg")
	f.Add(appendEntry(nil, &Entry{Path: "a", Kind: store.Tombstone}, ""), "")
	e.From = "b.jpg"
	f.Add(appendEntry(nil, &e, ""), "")
	f.Fuzz(func(t *testing.T, b []byte, before string) {
		e, rest, err := cutEntry(b, before)
		if err != nil {
			return
		}
		again, left, err := cutEntry(appendEntry(nil, &e, before), before)
		if err != nil || again != e || len(left) > 0 || len(rest) >= len(b) {
			t.Errorf("%+v, then %+v, %v", e, again, err)
		}
	})
}

// A plan over a store has what is new, changed, and gone, and nothing else. What cannot be listed stays.
func TestAppended(t *testing.T) {
	quiet := slog.New(slog.DiscardHandler)
	for _, order := range []store.Order{store.OrderPath, store.OrderShuffle} {
		p := newPlace(t, 100)
		what := p.worker.Encoder.(pack.Dataset)
		_, err := store.Pack(t.Context(), p.store, what, what, store.PackOptions{Logger: quiet, Order: order})
		testenv.Must(t, err)
		open := func() {
			base, err := store.Open(p.store, store.Options{Logger: quiet})
			testenv.Must(t, err)
			t.Cleanup(func() { base.Close() })
			p.m.Base, p.m.Current, p.m.Options.Order = base, what.Current, order
		}
		open()
		if _, err := p.m.Make(t.Context()); !errors.Is(err, ErrNothing) {
			t.Errorf("nothing changed: %v", err)
		}
		if _, err := os.Stat(filepath.Join(p.store, Dir)); err == nil {
			t.Error("a plan of nothing was written")
		}
		at := func(name string) string { return filepath.Join(p.dir, name) }
		testenv.Must(t, os.WriteFile(at("a/new.txt"), []byte("new"), 0o644))
		testenv.Must(t, os.MkdirAll(at("a-b/c"), 0o755)) // between a and what is in it
		testenv.Must(t, os.WriteFile(at("a-b/c/new.txt"), nil, 0o644))
		testenv.Must(t, os.Chmod(at("b/x.txt"), 0o600))
		testenv.Must(t, os.WriteFile(at("c/x.txt"), []byte("changed"), 0o644))
		testenv.Must(t, os.Remove(at("d/x.txt")))
		testenv.Must(t, os.RemoveAll(at("e")))
		testenv.Must(t, os.RemoveAll(at("f")))
		testenv.Must(t, os.WriteFile(at("f"), []byte("a file now"), 0o644))
		plan := mustMake(t, p.m)
		got := map[string]store.Kind{}
		all, _ := entriesOf(t, plan)
		for _, e := range all {
			got[e.Path] = e.Kind
		}
		want := map[string]store.Kind{ // directories: their times changed
			"": store.Dir, "a": store.Dir, "a/new.txt": store.File, "a-b": store.Dir, "a-b/c": store.Dir, "a-b/c/new.txt": store.File,
			"b/x.txt": store.File, "c/x.txt": store.File, "d": store.Dir, "d/x.txt": store.Tombstone, "e": store.Tombstone, "f": store.File,
		}
		for _, dir := range []string{"e", "f"} {
			for n := range 4 {
				want[fmt.Sprintf("%s/%s.txt", dir, "xxxx"[:n+1])] = store.Tombstone
			}
		}
		if !maps.Equal(got, want) || len(all) != len(got) {
			t.Errorf("%s: %v, want %v", order, got, want)
		}
		shown, age := p.m.Base.Shown(), p.m.Base.NewestAge()
		if plan.Base != (Base{shown.Name, shown.Sum}) || plan.Age != age+1 || plan.FirstSeq != 100+26+1 || shown.Name == "" || shown.Sum == "" {
			t.Errorf("%s: base %+v, age %d, first entry %d", order, plan.Base, plan.Age, plan.FirstSeq)
		}
		p.worker.Plan = plan
		done, err := p.worker.Pack(t.Context(), 0)
		testenv.Must(t, err)
		if c := done.Counts; done.Failed != 0 || c.Files != plan.Files || c.Dirs != plan.Dirs || c.Tombstones != plan.Tombstones || c.Bytes != plan.Bytes || c.Tombstones != 10 {
			t.Errorf("%s: %+v of %+v", order, c, plan.Totals)
		}
		// The same dataset over another generation is another plan.
		_, err = store.Pack(t.Context(), p.store, what, what, store.PackOptions{Logger: quiet})
		testenv.Must(t, err)
		testenv.Must(t, os.WriteFile(at("a/new.txt"), []byte("newer"), 0o644))
		open()
		if again := mustMake(t, p.m); again.ID == plan.ID || again.Age != plan.Age+1 || again.Files != 1 {
			t.Errorf("%s: %+v", order, again.Header)
		}
	}
}

// What cannot be listed is neither planned nor gone.
func TestAppendedUnread(t *testing.T) {
	quiet := slog.New(slog.DiscardHandler)
	p := newPlace(t, 60)
	what := p.worker.Encoder.(pack.Dataset)
	_, err := store.Pack(t.Context(), p.store, what, what, store.PackOptions{Logger: quiet})
	testenv.Must(t, err)
	base, err := store.Open(p.store, store.Options{Logger: quiet})
	testenv.Must(t, err)
	defer base.Close()
	testenv.Must(t, os.Remove(filepath.Join(p.dir, "b", "x.txt")))
	var warned []string
	p.m.Base, p.m.Current = base, what.Current
	p.m.Tree = hidden{p.m.Tree, "c"}
	p.m.Warn = func(path string, _ error) { warned = append(warned, path) }
	all, _ := entriesOf(t, mustMake(t, p.m))
	paths := []string{}
	for _, e := range all {
		paths = append(paths, e.Path)
	}
	if !slices.Equal(paths, []string{"b", "b/x.txt"}) || !slices.Equal(warned, []string{"c"}) {
		t.Errorf("planned %q, warned of %q", paths, warned)
	}
}

// hidden is a tree with a directory that cannot be listed.
type hidden struct {
	Tree
	dir string
}

func (h hidden) Members(ctx context.Context, dir string, yield func(Entry, error) bool) bool {
	if dir == h.dir {
		return yield(Entry{Path: dir, Kind: store.Dir}, fs.ErrPermission)
	}
	return h.Tree.Members(ctx, dir, yield)
}
