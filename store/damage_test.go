package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/store/vfs"
)

// small makes a store of two small packs.
func small(t *testing.T) (dir string, src *memSource) {
	t.Helper()
	src = newSource()
	src.put("a/1.jpg", []byte("the first picture"))
	src.put("a/2.jpg", []byte("the second"))
	src.put("b.txt", []byte("labels"))
	dir = tempDir(t)
	mustPack(t, dir, src, PackOptions{RecordImages: 2, PackBytes: 300})
	if n := len(packFiles(t, dir)); n != 2 {
		t.Fatalf("%d packs", n)
	}
	return dir, src
}

// Every byte of every pack is flipped in turn. A reader meets an error or the
// right bytes, never wrong ones; Check notices each.
func TestFlips(t *testing.T) {
	t.Parallel()
	dir, src := small(t)
	r := random(t)
	detected, harmless, total := 0, 0, 0
	s := mustOpen(t, dir)
	for name, whole := range packFiles(t, dir) {
		for i := range whole {
			total++
			broken := slices.Clone(whole)
			broken[i] ^= 1 << r.IntN(8)
			write(t, filepath.Join(dir, packsName, name), broken)
			bad, err := compareAgain(s, src)
			switch {
			case err != nil:
				t.Fatalf("%s byte %d: %v", name, i, err)
			case bad > 0:
				detected++
			default:
				harmless++
			}
			var problems []Problem
			if i%50 == 0 {
				problems, err = Check(context.Background(), dir, Options{Logger: quiet}, nil)
			} else {
				problems, err = checkPack(s, name)
			}
			if err != nil || len(problems) == 0 || problems[0].Kind != Corrupt || !strings.Contains(problems[0].String(), name) {
				t.Fatalf("%s byte %d: check found %v, %v", name, i, problems, err)
			}
		}
		write(t, filepath.Join(dir, packsName, name), whole)
	}
	t.Logf("%d bytes: %d seen by readers, %d not touched by them", total, detected, harmless)
	checkStore(t, dir, src)
	testenv.Proved(t, "damage", total)
}

// compareAgain is compareStore with packs that are opened anew.
func compareAgain(s *Store, src *memSource) (int, error) {
	s.pool.close()
	s.pool = newPool(s.o.FS, s.dir, packName.file, 0)
	v := s.now.Load()
	if err := v.checkPacks(); err != nil {
		return 0, err
	}
	v.take(v.index.Load())
	return compareStore(s, src)
}

// checkPack is what Check does with one pack.
func checkPack(s *Store, name string) ([]Problem, error) {
	c := &checker{ctx: context.Background(), dir: s.dir, o: s.o, live: map[string]int64{}, index: s.now.Load().index.Load()}
	n, ok := parsePackName(name)
	if !ok {
		return nil, errors.New(name)
	}
	err := c.pack(n)
	return c.problems, err
}

// The same where the index has to be made from the damaged packs.
func TestFlipsWithoutIndex(t *testing.T) {
	t.Parallel()
	dir, src := small(t)
	r := random(t)
	testenv.Must(t, os.Remove(filepath.Join(dir, currentName)))
	for name, whole := range packFiles(t, dir) {
		for i := r.IntN(7); i < len(whole); i += 7 {
			broken := slices.Clone(whole)
			broken[i] ^= 1 << r.IntN(8)
			write(t, filepath.Join(dir, packsName, name), broken)
			s, err := Open(dir, Options{Logger: quiet})
			if err == nil {
				_, err = compareStore(s, src)
				err = errors.Join(err, s.Close())
				_ = os.Remove(filepath.Join(dir, currentName))
			} else if errors.Is(err, ErrCorrupt) && strings.Contains(err.Error(), name) {
				err = nil
			}
			if err != nil {
				t.Fatalf("%s byte %d: %v", name, i, err)
			}
		}
		write(t, filepath.Join(dir, packsName, name), whole)
	}
}

// A pack that is shorter than it was is an error that names it, whatever its
// length; likewise one that is missing, and two that were swapped.
func TestTruncatedMissingSwapped(t *testing.T) {
	t.Parallel()
	dir, src := small(t)
	packs := packFiles(t, dir)
	count := 0
	refuse := func(what, name string, kind ProblemKind) {
		t.Helper()
		if count++; testenv.Race && count%5 != 0 && kind == Truncated {
			return // slow
		}
		_, err := Open(dir, Options{Logger: quiet})
		if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), name) {
			t.Fatalf("%s %s: open: %v", name, what, err)
		}
		problems, err := Check(context.Background(), dir, Options{Logger: quiet}, nil)
		if err != nil || len(problems) == 0 || problems[0].Kind != kind || !strings.HasSuffix(problems[0].Name, name) {
			t.Fatalf("%s %s: check: %v, %v", name, what, problems, err)
		}
	}
	for name, whole := range packs {
		path := filepath.Join(dir, packsName, name)
		for n := range whole {
			write(t, path, whole[:n])
			refuse("truncated", name, Truncated)
		}
		testenv.Must(t, os.Remove(path))
		refuse("missing", name, Missing)
		write(t, path, whole)
	}
	other := tempDir(t) // of a pack of the same age as the first
	mustPack(t, other, src, PackOptions{RecordImages: 1})
	for name, whole := range packFiles(t, other) {
		packs[name] = whole
		write(t, filepath.Join(dir, packsName, name), whole)
	}
	sealed, _, err := listPacks(vfs.OS, filepath.Join(dir, packsName))
	testenv.Must(t, err)
	for _, index := range []bool{true, false} {
		if !index {
			testenv.Must(t, os.Remove(filepath.Join(dir, currentName)))
		}
		for i := range 2 {
			first, second := sealed[i].String(), sealed[i+1].String()
			one, two := filepath.Join(dir, packsName, first), filepath.Join(dir, packsName, second)
			write(t, one, packs[second])
			write(t, two, packs[first])
			if _, err := Open(dir, Options{Logger: quiet}); !errors.Is(err, ErrCorrupt) {
				t.Errorf("%s and %s swapped, index %v: %v", first, second, index, err)
			}
			write(t, one, packs[first])
			write(t, two, packs[second])
		}
	}
	checkStoreAgain(t, dir, src)
	testenv.Proved(t, "damage", count)
}

// An unfinished pack of every length, and with every byte flipped, is taken over
// up to the damage and completed to the same bytes.
func TestSalvage(t *testing.T) {
	t.Parallel()
	src := newSource()
	for _, name := range []string{"1.jpg", "2.jpg", "d/3.txt"} {
		src.put(name, []byte("picture "+name))
	}
	dir := tempDir(t)
	mustPack(t, dir, src, PackOptions{})
	sealed := firstPack(t, dir)
	whole, err := os.ReadFile(sealed)
	testenv.Must(t, err)
	packs, partName := tempDir(t), packName{age: 1}.String()
	part := filepath.Join(packs, partName)
	resume := func(content []byte) (end int64) {
		t.Helper()
		write(t, part, content)
		for rec, err := range scan(memFileOf(content), packRef{packName: packName{age: 1}}, int64(len(content)), false) {
			if err == nil && rec.end > int64(len(content)) {
				t.Fatalf("of %d bytes a record is one that ends at %d", len(content), rec.end)
			}
		}
		kept := 0
		w, err := resumePack(vfs.OS, packs, 1, func(s scanned) error {
			kept++
			return nil
		})
		testenv.Must(t, err)
		testenv.Must(t, w.close())
		got, err := os.ReadFile(part)
		testenv.Must(t, err)
		if !slices.Equal(got, whole[:len(got)]) || kept != int(w.count) {
			t.Fatalf("kept %d bytes, %d records, which differ", len(got), kept)
		}
		return w.end
	}
	last := int64(0)
	for n := range len(whole) + 1 {
		end := resume(whole[:n])
		if end < last || end > max(int64(n), headerSize) {
			t.Fatalf("of %d bytes %d are kept", n, end)
		}
		last = end
	}
	for i := range int(last) {
		broken := slices.Clone(whole)
		broken[i] ^= 0x10
		if end := resume(broken); end > max(int64(i), headerSize) {
			t.Fatalf("byte %d flipped: %d are kept", i, end)
		}
	}
	// Completed by the next run.
	for n := 0; n < len(whole); n += 97 {
		dir := tempDir(t)
		mustPack(t, dir, newSource(), PackOptions{})
		_ = os.Remove(firstPack(t, dir))
		write(t, filepath.Join(dir, packsName, partName), whole[:n])
		mustPack(t, dir, src, PackOptions{})
		if !slices.Equal(packFiles(t, dir)[filepath.Base(sealed)], whole) {
			t.Fatalf("a pack that was cut to %d bytes is completed to another", n)
		}
		checkStore(t, dir, src)
	}
}

func write(t testing.TB, name string, b []byte) {
	t.Helper()
	testenv.Must(t, os.WriteFile(name, b, 0o644))
}

// TestCheck: what is wrong with a store is told, each thing once, and nothing else.
func TestCheck(t *testing.T) {
	t.Parallel()
	dir, src := small(t)
	mustMaterialize(t, dir, wantedResults(2, 1), FractionOptions{})
	check := func(what string, want ...string) (told []int) {
		t.Helper()
		problems, err := Check(t.Context(), dir, Options{Logger: quiet}, func(done, of int) { told = append(told, done, of) })
		var got []string
		for _, p := range problems {
			got = append(got, strings.TrimSpace(fmt.Sprint(p.Kind, " ", p.Name, " ", p.Path)))
		}
		slices.Sort(got)
		if slices.Sort(want); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v, want %q", what, got, err, want)
		}
		return told
	}
	name := func(of string) string { return filepath.Join(dir, of) }
	if told := check("whole"); !slices.Equal(told, []int{0, 2, 1, 2}) {
		t.Errorf("told %v", told)
	}
	parts := []string{packsName + "/000009.pack.part", fractionsName + "/ppm/000009.pack.part"}
	write(t, name(parts[0]), []byte("begun"))
	write(t, name(parts[1]), []byte("begun"))
	check("unfinished packs", "orphaned "+parts[0], "orphaned "+parts[1])
	lock, err := vfs.OS.Lock(name(lockName)) // which the check has let go
	testenv.Must(t, err)
	check("somebody writes")
	testenv.Must(t, errors.Join(lock.Close(), os.Remove(name(parts[0])), os.Remove(name(parts[1])), os.Mkdir(name(fractionsName+"/.other"), 0o777)))
	other := tempDir(t)
	mustPack(t, other, src, PackOptions{})
	strange := filepath.Join(packsName, filepath.Base(firstPack(t, other)))
	write(t, name(strange), packFiles(t, other)[filepath.Base(strange)])
	check("a pack of no generation", "orphaned "+strange)
	testenv.Must(t, os.Remove(name(strange)))

	testenv.Must(t, os.Remove(name(currentName)))
	check("no index", "missing "+currentName)
	testenv.Must(t, errors.Join(os.RemoveAll(name(packsName)), os.RemoveAll(name(fractionsName)), os.Mkdir(name(packsName), 0o777)))
	check("nothing is stored yet")
}

// TestRepairs: an open store makes its index again so many times, and then says what is wrong.
func TestRepairs(t *testing.T) {
	t.Parallel()
	dir, src := tempDir(t), generate(random(t), 50, 300)
	mustPack(t, dir, src, PackOptions{})
	s := mustOpen(t, dir)
	for round := range maxRepairs + 1 {
		tables, _ := filepath.Glob(filepath.Join(dir, indexName, "*", "*.sst"))
		for _, table := range tables {
			testenv.Must(t, os.Truncate(table, 0))
		}
		_, err := compareStore(s, src)
		if _, listed := s.List("class0"); err != nil || errors.Is(listed, ErrCorrupt) != (round == maxRepairs) || (listed != nil) != (round == maxRepairs) {
			t.Errorf("round %d: %v, %v", round, err, listed)
		}
	}
	checkStoreAgain(t, dir, src)
}
