package store

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/store/vfs"
	"github.com/pipefs/pipefs/store/vfs/faultfs"
)

// churned is a store of which much was replaced and removed since.
func churned(t *testing.T, dir string, o PackOptions) *memSource {
	t.Helper()
	r := random(t)
	src := generate(r, 40, 3_000)
	mustPack(t, dir, src, o)
	for round := range 4 {
		for range 3 {
			mutate(r, src, round)
		}
		mustPack(t, dir, src, o)
	}
	return src
}

// A compacted store holds the same, reads the same, and is packed to, compacted and made
// again from its packs as any other.
func TestCompact(t *testing.T) {
	t.Parallel()
	for _, o := range []PackOptions{{PackBytes: 20_000}, {PackBytes: 1}, {PackBytes: 50_000, RecordImages: 7, Order: OrderShuffle, Seed: 3}} {
		for _, dead := range []float64{1e-9, 0.3, 0.5, 1} {
			t.Run(fmt.Sprint(o.PackBytes, o.RecordImages, dead), func(t *testing.T) {
				dir := tempDir(t)
				src := churned(t, dir, o)
				before, was := files(t, dir), mustOpen(t, dir).Stats()
				report, err := Compact(t.Context(), dir, CompactOptions{Dead: dead, PackBytes: o.PackBytes, Logger: quiet})
				testenv.Must(t, err)
				for name, b := range files(t, dir) {
					if old, ok := before[name]; ok && !bytes.Equal(old, b) && name != currentName {
						t.Errorf("%s changed", name)
					}
				}
				for name := range before {
					if _, err := os.Stat(filepath.Join(dir, name)); err != nil && !strings.HasPrefix(name, indexName) {
						t.Errorf("it removed something: %v", err)
					}
				}
				is := mustOpen(t, dir).Stats()
				if is.Samples != was.Samples || is.Pictures != was.Pictures || !maps.Equal(is.Bytes, was.Bytes) {
					t.Errorf("%+v, before %+v", is, was)
				}
				if report.Packs > 0 && (is.PackBytes >= was.PackBytes || is.PackBytes != was.PackBytes-report.Bytes+report.NewBytes) {
					t.Errorf("%d bytes of %d: %+v", is.PackBytes, was.PackBytes, report)
				}
				if dead < 0.5 && report.Packs == 0 {
					t.Error("nothing was rewritten")
				}
				checkStore(t, dir, src)
				// What was replaced does not come back with the next run, and counts again only
				// where nothing says that it was replaced: the entries stay the same.
				if rep := mustPack(t, dir, src, o); rep.Files+rep.Dirs+rep.Removed > 0 {
					t.Errorf("packed again: %+v", rep)
				}
				src.put("class0/more.jpg", noise(random(t), 100))
				mustPack(t, dir, src, o)
				checkStore(t, dir, src)
				if got := mustOpen(t, dir).Stats().Packs; got != is.Packs+1 {
					t.Errorf("%d packs, before %d", got, is.Packs)
				}
				if again, err := Compact(t.Context(), dir, CompactOptions{Dead: max(dead, 0.3), Logger: quiet}); err != nil || dead <= 0.3 && again.Packs > 0 {
					t.Errorf("compacted again: %+v, %v", again, err)
				}
				// Old packs are removed, the oldest first; at each step the index can be made again.
				g, err := readGeneration(vfs.OS, dir)
				testenv.Must(t, err)
				gone := slices.SortedFunc(slices.Values(g.Replaced), func(a, b replacedPack) int { return a.name().compare(b.name()) })
				for i := range gone {
					testenv.Must(t, os.Remove(filepath.Join(dir, gone[i].name().file())))
					clone := filepath.Join(tempDir(t), "clone")
					testenv.Must(t, os.CopyFS(clone, os.DirFS(dir)))
					testenv.Must(t, errors.Join(os.Remove(filepath.Join(clone, currentName)), os.RemoveAll(filepath.Join(clone, indexName))))
					checkStoreAgain(t, clone, src)
				}
				checkStore(t, dir, src)
			})
		}
	}
}

// A tombstone is kept if the pack of what it hides is to be rewritten at first, and stays for its own tombstones.
func TestCompactHidden(t *testing.T) {
	t.Parallel()
	dir, src := tempDir(t), newSource()
	src.put("large", noise(random(t), 10_000))
	for i := range 20 {
		src.put(fmt.Sprint("gone", i), nil)
	}
	mustPack(t, dir, src, PackOptions{})
	for i := range 20 {
		src.remove(fmt.Sprint("gone", i))
	}
	src.put("hidden", nil)
	mustPack(t, dir, src, PackOptions{}) // stays
	src.remove("hidden")
	mustPack(t, dir, src, PackOptions{}) // is rewritten
	if report, err := Compact(t.Context(), dir, CompactOptions{Dead: 0.9, Logger: quiet}); err != nil || report.Packs != 1 {
		t.Errorf("%+v, %v", report, err)
	}
	checkStore(t, dir, src)
}

// Every operation of a compaction in turn fails, or the power fails before it: the store holds
// what it held, and compacting again works.
func TestCompactFaults(t *testing.T) {
	t.Parallel()
	o := PackOptions{PackBytes: 20_000}
	compact := func(dir string, fsys vfs.FS) (rewritten int, err error) {
		report, err := Compact(t.Context(), dir, CompactOptions{Dead: 0.3, FS: fsys, PackBytes: 20_000, Logger: quiet})
		return report.Packs, err
	}
	start := filepath.Join(tempDir(t), "start")
	src := churned(t, start, o)
	again := func(dir, what string, complete bool) {
		t.Helper()
		s, err := Open(dir, Options{Logger: quiet})
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if bad, err := compareStore(s, src); bad > 0 || err != nil {
			t.Fatalf("%s: %d corrupt, %v", what, bad, err)
		}
		n, err := compact(dir, nil)
		if err = errors.Join(s.Close(), err); err != nil || complete && n > 0 {
			t.Fatalf("%s: again: %d packs, %v", what, n, err)
		}
		if found, err := Check(t.Context(), dir, Options{Logger: quiet}, nil); len(found) > 0 || err != nil {
			t.Fatalf("%s: compacted again: %v, %v", what, found, err)
		}
		mustPack(t, dir, src, o)
		checkStore(t, dir, src)
	}
	failed := eachFault(t, start, 5, func(dir string, fsys *faultfs.FS) error {
		_, err := compact(dir, fsys)
		return err
	}, func(dir, what string, _, err error) { again(dir, what, err == nil) })
	if failed < 18 {
		t.Errorf("only %d faults hit", failed)
	}
	disk := tempDir(t)
	testenv.Must(t, os.CopyFS(filepath.Join(disk, "store"), os.DirFS(start)))
	eachCrash(t, disk, func(fsys vfs.FS) error {
		_, err := compact(filepath.Join(disk, "store"), fsys)
		return err
	}, func(disk, what string) { again(filepath.Join(disk, "store"), what, false) })
}
