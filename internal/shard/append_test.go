package shard

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
	"testing"

	"github.com/pipefs/pipefs/internal/prepare/pack"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/store"
)

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
		name, sum, age := p.m.Base.Generation()
		if plan.Base != (Base{name, sum}) || plan.Age != age+1 || plan.FirstSeq != 100+26+1 || name == "" || sum == "" {
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
