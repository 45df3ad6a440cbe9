package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

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
				g, err := readGeneration(vfs.OS, dir)
				testenv.Must(t, err)
				if is.Samples != was.Samples || is.Pictures != was.Pictures || !maps.Equal(is.Bytes, was.Bytes) {
					t.Errorf("%+v, before %+v", is, was)
				}
				if o.RecordImages == 0 && is.Records < is.Samples || report.Packs > 0 && (is.PackBytes >= was.PackBytes || is.PackBytes != was.PackBytes-report.Bytes+report.NewBytes) {
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
				if again, err := readGeneration(vfs.OS, dir); err != nil || again.sum != g.sum {
					t.Errorf("packed again, it is another generation: %v", err)
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
				g, err = readGeneration(vfs.OS, dir)
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
				src.put("class0/last.jpg", nil) // the next run removes their segments
				mustPack(t, dir, src, o)
				segments, err := vfs.OS.List(filepath.Join(dir, segmentsName))
				if n := mustOpen(t, dir).Stats().Packs; err != nil || len(gone) < report.Packs || len(segments) != n {
					t.Errorf("%d packs were replaced, %d of them are removed; %d packs have %d segments: %v", report.Packs, len(gone), n, len(segments), err)
				}
			})
		}
	}
}

// A pack is rewritten from the share on that is asked for, or half.
func TestCompactShare(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		gone  int // of 100 entries
		dead  float64
		packs int // the second one has what says that they are gone
	}{{46, 0, 0}, {46, 0.5, 0}, {52, 0, 2}, {52, 0.5, 2}, {99, 1, 0}, {100, 1, 2}} {
		dir, src := tempDir(t), newSource()
		delete(src.files, "")
		for i := range 100 {
			src.put(fmt.Sprintf("%0200d", i), nil)
		}
		mustPack(t, dir, src, PackOptions{})
		for i := range c.gone {
			src.remove(fmt.Sprintf("%0200d", i))
		}
		mustPack(t, dir, src, PackOptions{})
		if report, err := Compact(t.Context(), dir, CompactOptions{Dead: c.dead, Logger: quiet}); err != nil || report.Packs != c.packs {
			t.Errorf("%d of 100 gone, from %v on: %+v, %v", c.gone, c.dead, report, err)
		}
		checkStore(t, dir, src)
	}
}

// What is long is copied piece by piece, into a record of its own.
func TestCompactLong(t *testing.T) {
	t.Parallel()
	dir, src := tempDir(t), generate(random(t), 3, 100)
	src.put("class1/long.txt", noise(random(t), compactWhole))
	mustPack(t, dir, src, PackOptions{RecordImages: 9})
	src.remove("deep")
	mustPack(t, dir, src, PackOptions{})
	report, err := Compact(t.Context(), dir, CompactOptions{Dead: 1e-9, Logger: quiet})
	if is := mustOpen(t, dir).Stats(); err != nil || report.Packs == 0 || is.Records != 3 {
		t.Errorf("%+v, %v: %+v", report, err, is)
	}
	checkStore(t, dir, src)
}

// A compaction that cannot begin says why, and one that ends early takes back what it made.
func TestCompactEnds(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	churned(t, dir, PackOptions{PackBytes: 20_000})
	_, none := Compact(t.Context(), tempDir(t), CompactOptions{})
	if _, err := Compact(t.Context(), dir, CompactOptions{IndexDir: filepath.Join(dir, formatName, "below")}); err == nil || !errors.Is(none, ErrNotStore) {
		t.Errorf("%v; %v", none, err)
	}
	before := files(t, dir)
	for _, size := range []int64{1, 1 << 30} {
		ctx, cancel := context.WithCancel(t.Context())
		var told []int
		_, err := Compact(ctx, dir, CompactOptions{Dead: 1e-9, PackBytes: size, Progress: func(done, of int) {
			if told = append(told, done, of); done == 2 {
				cancel()
			}
		}})
		cancel()
		if !errors.Is(err, context.Canceled) || len(told) != 4 || told[0] != 1 || told[2] != 2 || told[1] != told[3] || told[1] < 3 {
			t.Errorf("%v, told %v", err, told)
		}
		if after := files(t, dir); !samePacks(before, after) {
			t.Errorf("%d files, before %d", len(after), len(before))
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
	src.put("back", nil)
	mustPack(t, dir, src, PackOptions{}) // stays
	src.remove("hidden")
	src.remove("back")
	mustPack(t, dir, src, PackOptions{}) // is rewritten
	src.put("back", nil)                 // its tombstone is of no use, and must not come after it
	mustPack(t, dir, src, PackOptions{})
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
	// An interrupted run of pack has left something, which stays, and a compaction that was killed.
	src.put("class0/more.jpg", []byte("more"))
	_, packed := Pack(t.Context(), start, src, fakeEncoder{id: "1"}, PackOptions{Logger: quiet, FS: failing("rename", partSuffix)})
	src.remove("class0/more.jpg")
	_, compacted := compact(start, failing("create", generationsName))
	if _, parts, err := listStored(vfs.OS, start); err != nil || !errors.Is(packed, syscall.EIO) || !errors.Is(compacted, syscall.EIO) || len(parts) != 1 {
		t.Fatal(err, packed, compacted, parts)
	}
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
		if found, err := Check(t.Context(), dir, Options{Logger: quiet}, nil); err != nil || len(found) != 1 || found[0].Kind != Orphaned || !strings.HasSuffix(found[0].Name, partSuffix) {
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

// TestGarbage: what is of no use comes in the order in which it is removed, with the reason; what is young stays.
func TestGarbage(t *testing.T) {
	t.Parallel()
	dir, before := t.TempDir(), time.Now()
	name := func(age uint64, id byte, plan packID) packName { return packName{age, packID{id}, plan} }
	pack := func(n packName) SealedPack { return SealedPack{packSeal: packSeal{Age: n.age, ID: n.id}, Plan: n.plan} }
	first, second, third := name(1, 1, packID{}), name(2, 2, packID{}), name(3, 3, packID{7})
	g, last := &generation{Number: 1, Packs: []SealedPack{pack(first)}}, &generation{Number: 2, Packs: []SealedPack{pack(second), pack(third)}}
	testenv.Must(t, errors.Join(g.write(vfs.OS, dir), last.write(vfs.OS, dir)))
	unused, later, left, never, replaced := name(3, 9, packID{}), name(4, 1, packID{}), name(1, 1, packID{7}), name(1, 5, packID{8}), name(1, 6, packID{9})
	wrote, plan, part := generationsName+"/"+g.fileName(), fmt.Sprintf("plans/%x.plan", replaced.plan), "packs/000005.pack.part"
	want := [][2]string{
		{plan, "of a plan whose packs were all replaced"},
		{wrote, "an old generation"}, {generationsName + "/x.tmp", "never finished"}, {part, "left by an interrupted run"},
		{first.segment(), "unused since the store changed"}, {unused.segment() + tmpSuffix, "unused since the store changed"}, {later.segment(), "left by an interrupted run"},
		{first.file(), "unused since the store changed"}, {left.file(), "of a plan that is committed"},
		{never.file(), "of a plan that was never committed"}, {replaced.file(), "of a plan whose packs were all replaced"},
		{unused.file(), "unused since the store changed"}, {later.file(), "left by an interrupted run"},
		{committedPath(replaced.plan), "of a plan whose packs were all replaced"},
	}
	current := generationsName + "/" + last.fileName()
	all := []string{formatName, currentName, current, "packs/notes", "plans/notes", generationsName + "/notes", second.file(), second.segment(), third.file(), committedPath(third.plan)}
	for _, w := range want {
		all = append(all, w[0])
	}
	for young, stay := range map[string][]string{
		"": nil, unused.file(): {unused.file()}, never.file(): {never.file()}, later.file(): {later.file(), later.segment(), part},
		current: {wrote, first.file(), first.segment()}, generationsName + "/x.tmp": {generationsName + "/x.tmp"},
	} {
		var listed []Listed
		for _, file := range all {
			listed = append(listed, Listed{Name: file, Modified: before.Add(map[bool]time.Duration{true: time.Hour, false: -time.Hour}[file == young])})
		}
		waste, err := Garbage(vfs.OS, dir, listed, before)
		testenv.Must(t, err)
		var got [][2]string
		for i, w := range waste {
			if got = append(got, [2]string{w.Name, w.Why}); i > 0 && w.Before(waste[i-1]) || w.Committed != (w.Plan == third.plan || w.Plan == replaced.plan) {
				t.Errorf("%q is young: %+v", young, w)
			}
		}
		if left := slices.DeleteFunc(slices.Clone(want), func(w [2]string) bool { return slices.Contains(stay, w[0]) }); !slices.Equal(got, left) {
			t.Errorf("%q is young: %q, want %q", young, got, left)
		}
	}
	testenv.Must(t, os.Remove(filepath.Join(dir, currentName)))
	for _, file := range []string{second.file(), wrote, currentName} {
		if _, err := Garbage(vfs.OS, dir, []Listed{{Name: file}}, before); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s without a generation: %v", file, err)
		}
	}
}
