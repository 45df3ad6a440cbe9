package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	sorted "github.com/pipefs/pipefs/internal/index"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/store/vfs"
)

// indexBytes is what the index of a store's generation holds.
func indexBytes(t *testing.T, dir string) (all []byte) {
	t.Helper()
	g, err := readGeneration(vfs.OS, dir)
	testenv.Must(t, err)
	x, err := indexDirOf(dir, "").open(g)
	testenv.Must(t, err)
	for item, err := range x.items {
		testenv.Must(t, err)
		all = append(all, item...)
	}
	testenv.Must(t, x.Close())
	return all
}

// mutate replaces, removes and adds a few files.
func mutate(r *rand.Rand, src *memSource, round int) {
	names := slices.Sorted(maps.Keys(src.files))
	for range 4 {
		name := names[r.IntN(len(names))]
		switch f, ok := src.files[name]; {
		case !ok || name == "":
		case f.kind == File && r.IntN(2) == 0:
			src.put(name, noise(r, r.IntN(500)))
		case strings.Contains(name, "/"):
			src.remove(name)
		}
	}
	src.put(fmt.Sprintf("class%d/new%d.jpg", round%3, round), noise(r, 100))
}

// The index that is brought up to date with each run is that of all packs at once, byte for
// byte, and so are the statistics; also where there are more packs than are merged at once.
func TestMergeInSteps(t *testing.T) {
	t.Parallel()
	r := random(t)
	src := generate(r, mergeWidth+60, 300)
	dir := tempDir(t)
	o := PackOptions{PackBytes: 1}
	mustPack(t, dir, src, o)
	for round := range 6 {
		mutate(r, src, round)
		mustPack(t, dir, src, o)
		want, stats := indexBytes(t, dir), mustOpen(t, dir).Stats()
		if stats.Packs <= mergeWidth {
			t.Fatalf("%d packs", stats.Packs)
		}
		for _, lost := range [][]string{
			{indexName},
			{indexName, currentName},
			{indexName, segmentsName},
			{indexName, segmentsName, currentName},
		} {
			for _, name := range lost {
				testenv.Must(t, os.RemoveAll(filepath.Join(dir, name)))
			}
			s := mustOpen(t, dir)
			if got := indexBytes(t, dir); !bytes.Equal(got, want) {
				t.Fatalf("round %d, without %v: another index", round, lost)
			}
			if got := s.Stats(); fmt.Sprint(got) != fmt.Sprint(stats) {
				t.Errorf("round %d, without %v: %+v, want %+v", round, lost, got, stats)
			}
			if bad, err := compareStore(s, src); bad > 0 || err != nil {
				t.Fatalf("round %d, without %v: %d corrupt, %v", round, lost, bad, err)
			}
		}
		if rep := mustPack(t, dir, src, o); rep.Files+rep.Dirs > 0 {
			t.Errorf("packed again: %+v", rep)
		}
		checkStore(t, dir, src)
	}
}

// However many pieces there are, each path comes once, from the newest piece that has it, and all are closed in the end.
func TestMergePieces(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // else several groups are merged at once
	temp := tempDir(t)
	t.Setenv("TMPDIR", temp)
	for _, n := range []int{0, 1, mergeWidth, mergeWidth + 1, 3 * mergeWidth} {
		var open, most atomic.Int64
		pieces := make([]piece, n)
		for i := range pieces {
			pieces[i] = piece{pack: i, open: func() (items, io.Closer, error) {
				if now := open.Add(1); now > most.Load() {
					most.Store(now)
				}
				return func(yield func([]byte, error) bool) {
					_ = yield(testItem("all have it", 0), nil) && yield(testItem(fmt.Sprintf("one has it/%03d", i), 0), nil)
				}, closer(func() { open.Add(-1) }), nil
			}}
		}
		var got []string
		testenv.Must(t, mergePieces(t.Context(), pieces, func(item []byte) error {
			got = append(got, fmt.Sprintf("%s of %d", itemPath(item), binary.LittleEndian.Uint32(item)))
			return nil
		}))
		var want []string
		for i := range pieces {
			want = append(want, fmt.Sprintf("one has it/%03d of %d", i, i))
		}
		if n > 0 {
			want = slices.Insert(want, 0, fmt.Sprintf("all have it of %d", n-1))
		}
		if !slices.Equal(got, want) || open.Load() != 0 || most.Load() != int64(min(n, mergeWidth)) {
			t.Errorf("%d pieces: %q, %d open, %d at once", n, got, open.Load(), most.Load())
		}
		held, _ := filepath.Glob("/proc/self/fd/*")
		for _, name := range held {
			if of, _ := os.Readlink(name); strings.HasPrefix(of, temp) {
				t.Errorf("%d pieces: %s is open", n, of)
			}
		}
	}
}

type closer func()

func (c closer) Close() error { c(); return nil }

// A caller may have locked its goroutine to a thread, as code that was called from C or from an init function has.
func TestLockedThread(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	src := generate(random(t), 20, 300)
	dir := tempDir(t)
	for range 2 {
		mustPack(t, dir, src, PackOptions{PackBytes: 1})
		checkStore(t, dir, src)
		src.put("class1/new.jpg", []byte("new"))
	}
	s := mustOpen(t, dir)
	mustPack(t, dir, src, PackOptions{})
	_, err := s.Refresh(t.Context(), func(Change) {})
	testenv.Must(t, err)
}

// files returns the content of all files below a directory, by their names.
func files(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	testenv.Must(t, filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		name, _ := filepath.Rel(dir, p)
		all[name], err = os.ReadFile(p)
		return err
	}))
	return all
}

// readOnly is a file system that cannot be written, and counts the segments that are opened.
type readOnly struct {
	vfs.FS
	segments *atomic.Int64
}

func (f readOnly) Open(name string) (vfs.File, error) {
	if strings.HasSuffix(name, segmentSuffix) {
		f.segments.Add(1)
	}
	return f.FS.Open(name)
}

func (readOnly) refuse(op, name string) error {
	return &fs.PathError{Op: op, Path: name, Err: fs.ErrPermission}
}

func (f readOnly) Create(name string) (vfs.File, error)    { return nil, f.refuse("create", name) }
func (f readOnly) OpenWrite(name string) (vfs.File, error) { return nil, f.refuse("open", name) }
func (f readOnly) MkdirAll(dir string) error               { return f.refuse("mkdir", dir) }
func (f readOnly) Rename(oldname, _ string) error          { return f.refuse("rename", oldname) }
func (f readOnly) Remove(name string) error                { return f.refuse("remove", name) }
func (f readOnly) RemoveAll(name string) error             { return f.refuse("remove", name) }
func (f readOnly) SyncDir(dir string) error                { return f.refuse("sync", dir) }

// A store that cannot be written has its index in another directory. Those who open it share
// that; one of them merges the segments, and of a new generation the new ones only.
func TestIndexDir(t *testing.T) {
	t.Parallel()
	r := random(t)
	src := generate(r, 60, 2_000)
	dir, indexDir := tempDir(t), filepath.Join(tempDir(t), "made", "when needed")
	var segments atomic.Int64
	o := Options{FS: readOnly{vfs.OS, &segments}, IndexDir: indexDir, Logger: quiet}
	packs := 0
	for round := range 5 {
		mustPack(t, dir, src, PackOptions{PackBytes: 20_000, IndexDir: tempDir(t)})
		was := packs
		packs = len(packFiles(t, dir))
		segments.Store(0)
		var readers sync.WaitGroup
		for range 8 {
			readers.Go(func() {
				s, err := Open(dir, o)
				if err != nil {
					t.Error(err)
					return
				}
				defer s.Close()
				if s.now.Load().index.Load().name == privateName {
					t.Error("the index is not shared")
				}
				if bad, err := compareStore(s, src); bad > 0 || err != nil {
					t.Errorf("round %d: %d corrupt, %v", round, bad, err)
				}
			})
		}
		readers.Wait()
		if n := segments.Load(); n != int64(packs-was) {
			t.Errorf("round %d: %d segments were opened, %d are new", round, n, packs-was)
		}
		if names, _ := filepath.Glob(filepath.Join(indexDir, "*")); len(names) > 4 { // the lock, two indexes and their base
			t.Errorf("round %d: %v", round, names)
		}
		if _, err := os.Stat(filepath.Join(dir, indexName)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("something was written into the store: %v", err)
		}
		mutate(r, src, round)
	}
	// Where there is no room for it either, each has one of its own.
	file := filepath.Join(tempDir(t), "file")
	write(t, file, nil)
	o.IndexDir = filepath.Join(file, "below")
	s, err := Open(dir, o)
	testenv.Must(t, err)
	defer s.Close()
	if s.now.Load().index.Load().name != privateName {
		t.Errorf("the index is in %s", s.now.Load().index.Load().name)
	}
}

// A segment has to be the one that the generation names: another one of the same pack is refused.
func TestOtherSegment(t *testing.T) {
	dir, _ := small(t)
	g, err := readGeneration(vfs.OS, dir)
	testenv.Must(t, err)
	p := g.Packs[0]
	for want, ok := range map[segmentSeal]bool{p.Segment: true, {}: true, {p.Segment.Size, p.Segment.Sum + 1}: false, {p.Segment.Size + 1, p.Segment.Sum}: false} {
		l, err := openSegment(vfs.OS, dir, p.name(), want)
		if ok != (err == nil) || err != nil && !errors.Is(err, ErrCorrupt) {
			t.Errorf("%+v: %v", want, err)
		}
		if err == nil {
			testenv.Must(t, l.f.Close())
		}
	}
}

// A store that was half merged, and one whose tables and segments are damaged, opens with the
// right entries; packing again puts the segments right.
func TestSegmentDamage(t *testing.T) {
	t.Parallel()
	r := random(t)
	src := generate(r, 60, 2_000)
	dir := tempDir(t)
	mustPack(t, dir, src, PackOptions{PackBytes: 20_000})
	for round := range 30 {
		names, err := filepath.Glob(filepath.Join(dir, segmentsName, "*"))
		testenv.Must(t, err)
		name := names[r.IntN(len(names))]
		before, err := os.ReadFile(name)
		testenv.Must(t, err)
		switch round % 3 {
		case 0:
			testenv.Must(t, os.Remove(name))
		case 1: // the segment of another pack
			testenv.Must(t, os.Rename(names[(slices.Index(names, name)+1)%len(names)], name))
		default:
			damageFile(t, r, name)
		}
		after, _ := os.ReadFile(name)
		problems, err := Check(t.Context(), dir, Options{Logger: quiet}, nil)
		if changed := !bytes.Equal(before, after); err != nil || changed != (len(problems) > 0) || changed && !strings.HasPrefix(problems[0].Name, segmentsName) {
			t.Fatalf("round %d: check found %v, %v", round, problems, err)
		}
		o := Options{Logger: quiet, IndexDir: tempDir(t)}
		if round%2 == 0 { // what was being written when the power failed
			for _, name := range []string{"", "-x" + sorted.Suffix} {
				left := filepath.Join(o.IndexDir, strings.Repeat("0", 32)+name)
				testenv.Must(t, os.Mkdir(left, 0o777))
				write(t, filepath.Join(left, "000001.sst"), noise(r, 100))
			}
		}
		s, err := Open(dir, o)
		testenv.Must(t, err)
		if bad, err := compareStore(s, src); bad > 0 || err != nil {
			t.Fatalf("round %d: %d corrupt, %v", round, bad, err)
		}
		_ = s.Close()
		if _, err := Pack(context.Background(), dir, src, fakeEncoder{id: "1"}, PackOptions{Logger: quiet}); err != nil {
			t.Fatal(err)
		}
		if now, err := os.ReadFile(name); err != nil || !bytes.Equal(now, before) {
			t.Fatalf("round %d: packed again, the segment is another: %v", round, err)
		}
		checkStore(t, dir, src)
	}
}

// Adding to a store writes what is new, and the one name that moves.
func TestAppendWritesWhatIsNew(t *testing.T) {
	r := random(t)
	src := generate(r, 40, 3_000)
	dir := tempDir(t)
	mustPack(t, dir, src, PackOptions{PackBytes: 20_000})
	before := files(t, dir)
	src.put("class1/new.jpg", noise(r, 500))
	mustPack(t, dir, src, PackOptions{PackBytes: 20_000})
	fresh := map[string]int{}
	for name, b := range files(t, dir) {
		old, ok := before[name]
		switch dir, _ := filepath.Split(name); {
		case strings.HasPrefix(name, indexName): // of a generation, as a whole
		case !ok:
			fresh[dir]++
		case name != currentName && !bytes.Equal(old, b):
			t.Errorf("%s changed", name)
		}
	}
	want := map[string]int{packsName + "/": 1, segmentsName + "/": 1, generationsName + "/": 1}
	if !maps.Equal(fresh, want) {
		t.Errorf("new files: %v, want %v", fresh, want)
	}
	checkStore(t, dir, src)
}
