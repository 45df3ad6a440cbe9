package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	sorted "github.com/pipefs/pipefs/internal/index"
	"github.com/pipefs/pipefs/internal/testenv"
)

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	for _, o := range []PackOptions{
		{},
		{PackBytes: 100_000},
		{RecordImages: 7, Order: OrderShuffle, Seed: 3},
		{RecordImages: 4096, PackBytes: 1},
		{RecordImages: 16, RecordBytes: 50_000, MemoryBytes: 1},
	} {
		t.Run(fmt.Sprintf("K%d%s", o.RecordImages, o.Order), func(t *testing.T) {
			src := generate(random(t), 60, 200_000)
			dir := filepath.Join(tempDir(t), "store")
			o.DatasetPath = "/data/set"
			rep := mustPack(t, dir, src, o)
			if rep.Files != 62 || rep.Failed != 0 || rep.Skipped != 0 || rep.Faults != 12 {
				t.Errorf("report %+v", rep)
			}
			checkStore(t, dir, src)
			st := mustOpen(t, dir).Stats()
			if st.Samples != 62 || st.Faults != 12 || st.Packs != rep.Packs || st.Dataset != "/data/set" || st.Bytes["original"] == 0 {
				t.Errorf("stats %+v", st)
			}
			if records, ok := map[int]int64{7: 9, 4096: 1}[o.RecordImages]; ok && st.Records != records || o.PackBytes == 0 && rep.Packs != 1 {
				t.Errorf("%d packs, %d records", rep.Packs, st.Records)
			}
			// A second time there is nothing to do.
			before := packFiles(t, dir)
			src.reads = 0
			rep = mustPack(t, dir, src, PackOptions{Progress: func(p Progress) { t.Errorf("progress %+v", p) }})
			if rep.Files != 0 || src.reads != 0 || rep.Packs != 0 || rep.Skipped != 62 {
				t.Errorf("second report %+v", rep)
			}
			if !samePacks(before, packFiles(t, dir)) {
				t.Error("packs changed")
			}
		})
	}
}

func TestEmptyDataset(t *testing.T) {
	dir := tempDir(t)
	src := newSource()
	delete(src.files, "")
	mustPack(t, dir, src, PackOptions{})
	s := mustOpen(t, dir)
	if list, err := s.List(""); err != nil || len(list) != 0 {
		t.Errorf("list: %v, %v", list, err)
	}
	if _, err := s.List("nowhere"); !errors.Is(err, ErrNotFound) {
		t.Errorf("list nowhere: %v", err)
	}
}

func TestNotAStore(t *testing.T) {
	dir := tempDir(t)
	if _, err := Open(dir, Options{}); !errors.Is(err, ErrNotStore) {
		t.Errorf("open an empty directory: %v", err)
	}
	testenv.Must(t, os.WriteFile(filepath.Join(dir, "thesis.tex"), nil, 0o644))
	if _, err := Pack(context.Background(), dir, newSource(), fakeEncoder{}, PackOptions{}); !errors.Is(err, ErrNotStore) {
		t.Errorf("pack over somebody's files: %v", err)
	}
}

// A store of another format is refused, with what to do.
func TestOtherFormats(t *testing.T) {
	for version, want := range map[int]string{1: "pack the dataset again into another directory", formatVersion + 1: "use a newer pipefs"} {
		dir, src := small(t)
		text, err := sorted.Seal(formatFile{Magic: formatMagic, Version: version})
		testenv.Must(t, err)
		write(t, filepath.Join(dir, formatName), text)
		_, opened := Open(dir, Options{Logger: quiet})
		_, packed := Pack(t.Context(), dir, src, fakeEncoder{id: "1"}, PackOptions{Logger: quiet})
		for _, err := range []error{opened, packed} {
			if !errors.Is(err, ErrVersion) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("version %d: %v", version, err)
			}
		}
	}
}

// The packs do not depend on how many workers there are, nor on interruptions.
func TestReproducible(t *testing.T) {
	t.Parallel()
	r := random(t)
	src := generate(r, 80, 40_000)
	for _, o := range []PackOptions{{PackBytes: 200_000}, {PackBytes: 500_000, RecordImages: 5, Order: OrderShuffle, Seed: 9}} {
		var want map[string][]byte
		for i, workers := range []int{1, 4, 16} {
			o.Workers = workers
			dir := filepath.Join(tempDir(t), fmt.Sprint(i))
			mustPack(t, dir, src, o)
			if got := packFiles(t, dir); want == nil {
				want = got
			} else if !samePacks(want, got) {
				t.Errorf("%d workers make other packs", workers)
			}
		}
		dir := filepath.Join(tempDir(t), "interrupted")
		for stop := 1; ; stop += r.IntN(9) {
			ctx, cancel := context.WithCancel(context.Background())
			n := 0
			o := o
			o.Logger = quiet
			o.Progress = func(Progress) {
				if n++; n == stop {
					cancel()
				}
			}
			_, err := Pack(ctx, dir, src, fakeEncoder{id: "1"}, o)
			cancel()
			if err == nil {
				break
			}
			if !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
		}
		if !samePacks(want, packFiles(t, dir)) {
			t.Error("interruptions make other packs")
		}
		checkStore(t, dir, src)
	}
}

func TestIncremental(t *testing.T) {
	r := random(t)
	src := generate(r, 30, 10_000)
	dir := tempDir(t)
	mustPack(t, dir, src, PackOptions{})
	for round := range 8 {
		names := slices.Sorted(maps.Keys(src.files))
		changed, removed := 0, 0
		for range 3 {
			name := names[r.IntN(len(names))]
			switch f, ok := src.files[name]; {
			case !ok || name == "":
			case f.kind == File && r.IntN(2) == 0:
				src.put(name, noise(r, r.IntN(10_000)))
				changed++
			case strings.Contains(name, "/"):
				src.remove(name)
				removed++
			}
		}
		src.put(fmt.Sprintf("new/%d.jpg", round), noise(r, 1000))
		rep := mustPack(t, dir, src, PackOptions{})
		if rep.Files == 0 || rep.Files > int64(changed)+1 || removed > 0 && rep.Removed == 0 {
			t.Errorf("%d changed, %d removed: %+v", changed, removed, rep)
		}
		checkStore(t, dir, src)
	}
	// The indexes are those of two generations, and a base; and there is a lock.
	for pattern, most := range map[string]int{generationsName + "/*": keepGenerations, indexName + "/*": 4} {
		names, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil || len(names) < keepGenerations || len(names) > most {
			t.Errorf("%s: %v, %v", pattern, names, err)
		}
	}
	// Segments without a pack go, and what a crash left of one; what is none stays.
	segments := filepath.Join(dir, segmentsName)
	was, err := os.ReadDir(segments)
	testenv.Must(t, err)
	foreign := "999999" + was[0].Name()[6:]
	for _, name := range []string{foreign, foreign + tmpSuffix, strings.TrimSuffix(foreign, segmentSuffix), "notes" + segmentSuffix} {
		write(t, filepath.Join(segments, name), nil)
	}
	src.put("new/last.jpg", noise(r, 1000))
	mustPack(t, dir, src, PackOptions{})
	if now, err := os.ReadDir(segments); err != nil || len(now) != len(was)+3 || now[len(was)+1].Name()+segmentSuffix != foreign {
		t.Errorf("%q, %v", now, err)
	}
	// Another implementation: everything that it concerns is made again.
	rep, err := Pack(context.Background(), dir, src, fakeEncoder{id: "2"}, PackOptions{Logger: quiet})
	jpegs := 0
	for name := range src.files {
		if strings.HasSuffix(name, ".jpg") {
			jpegs++
		}
	}
	if err != nil || int(rep.Files) != jpegs {
		t.Errorf("%d JPEGs: %+v, %v", jpegs, rep, err)
	}
}

func TestUnreadable(t *testing.T) {
	r := random(t)
	src := generate(r, 20, 5_000)
	dir := tempDir(t)
	mustPack(t, dir, src, PackOptions{})
	// What is stored of a directory that cannot be listed stays.
	src.put("class1/new.jpg", []byte("new"))
	src.put("class2/fails.jpg", []byte("ERROR"))
	src.put("class2/panics.jpg", []byte("PANIC"))
	src.put("class2/secret.jpg", []byte("secret"))
	src.readErr["class2/secret.jpg"] = fs.ErrPermission
	hidden := generate(r, 0, 1)
	for name := range src.files {
		if below(name, "class1") {
			src.walkErr[name] = errors.New("not walked")
			hidden.files[name] = src.files[name]
		}
	}
	src.walkErr["class1"] = fs.ErrPermission
	warned := map[string]error{}
	rep := mustPack(t, dir, src, PackOptions{Warn: func(path string, err error) { warned[path] = err }})
	if rep.Removed != 0 || rep.Files != 0 {
		t.Errorf("report %+v", rep)
	}
	if !errors.Is(warned["class1"], fs.ErrPermission) || !errors.Is(warned["class2/secret.jpg"], fs.ErrPermission) ||
		warned["class2/fails.jpg"] == nil || !strings.Contains(fmt.Sprint(warned["class2/panics.jpg"]), "panic") {
		t.Errorf("warned: %v", warned)
	}
	if int(rep.Failed) != len(warned) {
		t.Errorf("%d failed, %d warned of", rep.Failed, len(warned))
	}
	for name := range src.files {
		_, err := mustOpen(t, dir).Lookup(name)
		if stored := name != "class1/new.jpg" && warned[name] == nil || src.walkErr[name] != nil && name != "class1/new.jpg"; stored != (err == nil) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A file that changes while it is read is read again; one that never rests is
// left out. Either way no mixture is stored.
func TestChangesWhileRead(t *testing.T) {
	src := newSource()
	src.put("once.txt", []byte("before"))
	src.put("ever.txt", []byte("0"))
	times := map[string]int{}
	src.onRead = func(path string) {
		switch times[path]++; {
		case path == "once.txt" && times[path] == 1:
			src.put(path, []byte("after, and longer"))
		case path == "ever.txt":
			src.put(path, []byte("again"))
		}
	}
	dir := tempDir(t)
	synctest.Test(t, func(t *testing.T) {
		var warned error
		began := time.Now()
		rep := mustPack(t, dir, src, PackOptions{Warn: func(_ string, err error) { warned = err }, Workers: 1})
		if waited := time.Since(began); rep.Failed != 1 || rep.Files != 1 || !errors.Is(warned, ErrChanged) || !maps.Equal(times, map[string]int{"once.txt": 2, "ever.txt": 5}) || waited != 180*time.Millisecond {
			t.Errorf("%+v, %v; %v times read, with pauses of %v", rep, warned, times, waited)
		}
	})
}

func TestPackNames(t *testing.T) {
	id := strings.Repeat("0f", 16)
	for name, want := range map[string]bool{
		"000001-" + id + ".pack": true, "1234567-" + id + ".pack": true, "000001.pack.part": true, fmt.Sprint(uint64(maxAge)-1) + ".pack.part": true,
		"000000-" + id + ".pack": false, "000001.pack": false, "1-" + id + ".pack": false, "000001-" + id[2:] + ".pack": false, "000001-" + id: false,
		"000001-" + strings.Repeat("0", 32) + ".pack": false, "000001-" + id + ".pack.part": false, fmt.Sprint(uint64(maxAge)) + ".pack.part": false, "x.pack.part": false, "": false,
	} {
		if n, ok := parsePackName(name); ok != want || ok && n.String() != name {
			t.Errorf("%q: %+v, %v", name, n, ok)
		}
	}
	var short ID
	if err := short.UnmarshalText([]byte(id[2:])); err == nil {
		t.Error("15 bytes are an id")
	}
}

func TestListOrder(t *testing.T) {
	for _, o := range []PackOptions{{}, {RecordImages: 2}, {Order: OrderShuffle, Seed: 5}, {RecordImages: 8, Order: OrderShuffle}} {
		dir, src := tempDir(t), generate(random(t), 100, 100)
		mustPack(t, dir, src, o)
		list, err := mustOpen(t, dir).List("class1")
		testenv.Must(t, err)
		names := slices.IsSortedFunc(list, func(a, b Child) int { return strings.Compare(a.Name, b.Name) })
		if packed := slices.IsSortedFunc(list, bySeq); !packed || names != (o.Order == "") {
			t.Errorf("%+v: in packed order %v, by name %v", o, packed, names)
		}
		// Later runs without options keep to it.
		src.put("class1/+more.jpg", nil)
		mustPack(t, dir, src, PackOptions{})
		more, err := mustOpen(t, dir).List("class1")
		testenv.Must(t, err)
		if last := slices.MaxFunc(more, bySeq); last.Name != "+more.jpg" || last.Seq == slices.MaxFunc(list, bySeq).Seq || slices.IsSortedFunc(more, bySeq) == (o.Order == "" && o.RecordImages == 0) {
			t.Errorf("%+v: what was packed last is %+v", o, last)
		}
		if st := mustOpen(t, dir).Stats(); st.RecordImages != max(1, o.RecordImages) || o.Order != "" && (st.Order != o.Order || st.Seed != o.Seed) {
			t.Errorf("%+v became %+v", o, st)
		}
	}
}

func TestLocked(t *testing.T) {
	dir := tempDir(t)
	src := generate(random(t), 5, 100)
	src.onRead = func(string) {
		if _, err := Pack(context.Background(), dir, src, fakeEncoder{}, PackOptions{}); !errors.Is(err, ErrLocked) {
			t.Errorf("a second writer: %v", err)
		}
		if _, err := Compact(t.Context(), dir, CompactOptions{}); !errors.Is(err, ErrLocked) {
			t.Errorf("a compaction beside a writer: %v", err)
		}
		s, err := Open(dir, Options{Logger: quiet}) // before there is an index
		if err != nil {
			t.Errorf("a reader beside a writer: %v", err)
			return
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	mustPack(t, dir, src, PackOptions{})
}

// A file becomes a directory, and the other way round.
func TestKindChanges(t *testing.T) {
	src := newSource()
	src.put("a/x.txt", []byte("x"))
	src.put("b", []byte("a file"))
	dir := tempDir(t)
	mustPack(t, dir, src, PackOptions{})
	src.remove("a")
	src.remove("b")
	src.put("a", []byte("now a file"))
	src.put("b/y.txt", []byte("y"))
	mustPack(t, dir, src, PackOptions{})
	checkStore(t, dir, src)
	if _, err := mustOpen(t, dir).Lookup("a/x.txt"); !errors.Is(err, ErrNotFound) {
		t.Errorf("a/x.txt: %v", err)
	}
}
