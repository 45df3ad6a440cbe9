package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
)

// memFileRW is a vfs.File in memory.
type memFileRW struct{ b []byte }

func (f *memFileRW) ReadAt(p []byte, off int64) (int, error) {
	return bytes.NewReader(f.b).ReadAt(p, off)
}

func (f *memFileRW) WriteAt(p []byte, off int64) (int, error) {
	f.b = append(f.b[:off], p...)
	return len(p), nil
}

func (f *memFileRW) Size() (int64, error) { return int64(len(f.b)), nil }
func (f *memFileRW) Truncate(int64) error { return fs.ErrPermission }
func (f *memFileRW) Sync() error          { return nil }
func (f *memFileRW) Close() error         { return nil }

func testItem(path string, seq int64) []byte {
	raw := appendEntry(nil, &Sample{Path: path, Kind: Dir, Seq: seq})
	return append(make([]byte, itemHead), raw...)
}

// someList is a list of some blocks, and its paths in order.
func someList(t testing.TB, n int) (f *memFileRW, paths []string) {
	paths = []string{"", "a", "a/b", "empty", "top.txt", "zz.txt"}
	for i := range n {
		paths = append(paths, fmt.Sprintf("a/%04d.jpg", i), fmt.Sprintf("a/b/%04d.jpg", i), fmt.Sprintf("a.d/%04d.jpg", i))
	}
	slices.SortFunc(paths, ComparePaths)
	f = &memFileRW{}
	w := newListWriter(f)
	for i, p := range paths {
		testenv.Must(t, w.add(testItem(p, int64(i))))
	}
	_, err := w.finish(packID{1})
	testenv.Must(t, err)
	return f, paths
}

// readList returns the paths of a list up to an error.
func readList(b []byte) (paths []string, err error) {
	l, err := openList(memFileOf(b), packID{1})
	if err != nil {
		return nil, err
	}
	for item, err := range l.items {
		if err != nil {
			return paths, err
		}
		paths = append(paths, string(itemPath(item)))
	}
	return paths, nil
}

func TestList(t *testing.T) {
	for _, n := range []int{0, 1, 3000} {
		f, paths := someList(t, n)
		if got, err := readList(f.b); err != nil || !slices.Equal(got, paths) {
			t.Errorf("%d of %d, %v", len(got), len(paths), err)
		}
	}
	// the order of directories and names is that of keys in the index
	_, paths := someList(t, 30)
	if !slices.IsSortedFunc(paths, func(a, b string) int {
		return bytes.Compare(appendKey(nil, a), appendKey(nil, b))
	}) {
		t.Error("keys have another order")
	}
}

// TestListRefuses: of a list that contradicts itself what comes before that is read, and an error.
func TestListRefuses(t *testing.T) {
	list := func(of packID, more int64, items ...[]byte) []byte {
		f := &memFileRW{}
		w := newListWriter(f)
		for _, item := range items {
			testenv.Must(t, w.add(item))
		}
		w.seal.Items += more
		_, err := w.finish(of)
		testenv.Must(t, err)
		return f.b
	}
	a, b := testItem("a", 1), testItem("b", 2)
	good, next := list(packID{1}, 0, a, b), list(packID{1}, 0, a, testItem("b", 3))
	for what, c := range map[string]struct {
		b     []byte
		items int
		fails bool
	}{
		"nothing":                    {list(packID{1}, 0), 0, false},
		"two items":                  {good, 2, false},
		"of another pack":            {list(packID{2}, 0, a, b), 0, true},
		"one path twice":             {list(packID{1}, 0, a, a), 1, true},
		"not in order":               {list(packID{1}, 0, b, a), 1, true},
		"an item of a head alone":    {list(packID{1}, 0, a, b[:itemHead]), 1, true},
		"fewer items":                {list(packID{1}, 1, a, b), 2, true},
		"the trailer of other items": {slices.Concat(good[:len(good)-listTrailer], next[len(next)-listTrailer:]), 2, true},
	} {
		if got, err := readList(c.b); len(got) != c.items || (err != nil) != c.fails {
			t.Errorf("%s: %q, %v", what, got, err)
		}
	}
	for at, want := range map[place]bool{
		{1, 0, 0}: true, {1, maxLen, maxLen}: true, {2, 0, 0}: false,
		{1, -1, 0}: false, {1, 0, -1}: false, {1, maxLen + 1, 0}: false, {1, 0, maxLen + 1}: false,
	} {
		if s, err := decodeNumbered(append(appendItem(nil, at), a[itemHead:]...), []uint32{8, 9}); (err == nil) != want {
			t.Errorf("%+v: %+v, %v", at, s, err)
		}
	}
}

// Each byte of a list is flipped, and it is cut to every length: what is read until the error is right.
func TestListDamage(t *testing.T) {
	f, paths := someList(t, 12)
	r := random(t)
	for i := range f.b {
		flipped := slices.Clone(f.b)
		flipped[i] ^= 1 << r.IntN(8)
		for _, b := range [][]byte{flipped, f.b[:i], append(slices.Clone(f.b[:i]), f.b[min(i+1, len(f.b)):]...)} {
			got, err := readList(b)
			if err == nil || len(got) > len(paths) || !slices.Equal(got, paths[:len(got)]) {
				t.Fatalf("byte %d: %d items, %v", i, len(got), err)
			}
		}
	}
	testenv.Proved(t, "damage", 3*len(f.b))
}

// FuzzList has files of any content as a segment.
func FuzzList(f *testing.F) {
	whole, _ := someList(f, 3)
	f.Add(whole.b)
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) >= listTrailer { // checksums that fit let more of the input through
			b = bytes.Clone(b)
			trailer := b[len(b)-listTrailer:]
			if len(b) > listTrailer+blockHead {
				binary.LittleEndian.PutUint32(b, uint32(len(b)-listTrailer-blockHead))
				binary.LittleEndian.PutUint32(b[4:], sum(b[blockHead:len(b)-listTrailer]))
			}
			binary.LittleEndian.PutUint32(trailer[listTrailer-12:], sum(trailer[:listTrailer-12]))
		}
		l, err := openList(memFileOf(b), packID(b[max(0, len(b)-listTrailer+8):][:16]))
		if err != nil {
			return
		}
		for item, err := range l.items {
			if err == nil {
				_, _ = decodeItem(item)
			}
		}
	})
}

// logLines is a logger, and what it was told.
func logLines() (*slog.Logger, *bytes.Buffer) {
	var b bytes.Buffer
	return slog.New(slog.NewTextHandler(&b, nil)), &b
}

// The index of a store is damaged before it is opened, and its tables while it is open: it
// is made again from the packs, with one line in the log, and nothing is missing. A second
// reader finds what the first one made.
func TestIndexDamage(t *testing.T) {
	t.Parallel()
	r := random(t)
	dir := tempDir(t)
	src := generate(r, 300, 300)
	mustPack(t, dir, src, PackOptions{})
	damage := func(pattern string) {
		names, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil || len(names) == 0 {
			t.Fatal(names, err)
		}
		for _, name := range names {
			damageFile(t, r, name)
		}
	}
	for round := range 30 {
		log, lines := logLines()
		var s *Store
		var err error
		if round%2 == 0 {
			damage([]string{currentName, generationsName + "/*", indexName + "/*/*"}[r.IntN(3)])
			problems, err := Check(context.Background(), dir, Options{Logger: quiet}, nil)
			if err != nil || len(problems) == 0 || !strings.HasPrefix(problems[0].Name, indexName) && problems[0].Name != currentName && !strings.HasPrefix(problems[0].Name, generationsName) {
				t.Fatalf("check found %v, %v", problems, err)
			}
		}
		if s, err = Open(dir, Options{Logger: log}); err != nil {
			t.Fatal(err)
		}
		if round%2 == 1 {
			if _, err := s.List("class0"); err != nil {
				t.Fatal(err)
			}
			damageTables(t, r, dir)
		}
		var readers sync.WaitGroup
		for range 1 + round%3 {
			readers.Go(func() {
				if bad, err := compareStore(s, src); bad > 0 || err != nil {
					t.Errorf("round %d: %d corrupt, %v", round, bad, err)
				}
			})
		}
		readers.Wait()
		if n := strings.Count(lines.String(), "made again"); n > 1 {
			t.Errorf("round %d: %s", round, lines)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	testenv.Must(t, os.RemoveAll(filepath.Join(dir, currentName)))
	checkStoreAgain(t, dir, src)
}

// damageTables cuts the tables of an index that is open, or flips bits where entries are. In what lies
// behind them, the index of the table, Badger's assertions end the process: see package index.
func damageTables(t *testing.T, r *rand.Rand, dir string) {
	t.Helper()
	tables, err := filepath.Glob(filepath.Join(dir, indexName, "*", "*.sst"))
	if err != nil || len(tables) == 0 {
		t.Fatal(tables, err)
	}
	for _, name := range tables {
		st, err := os.Stat(name)
		testenv.Must(t, err)
		if r.IntN(3) == 0 {
			testenv.Must(t, os.Truncate(name, r.Int64N(st.Size())))
			continue
		}
		f, err := os.OpenFile(name, os.O_WRONLY, 0)
		testenv.Must(t, err)
		for range 8 {
			_, err = f.WriteAt(noise(r, 1), r.Int64N(st.Size()/2))
			testenv.Must(t, err)
		}
		testenv.Must(t, f.Close())
	}
}

// damageFile flips some bits of a file in place, or cuts it.
func damageFile(t *testing.T, r *rand.Rand, name string) {
	t.Helper()
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	testenv.Must(t, err)
	defer f.Close()
	st, err := f.Stat()
	if err != nil || st.Size() == 0 {
		return
	}
	if r.IntN(3) == 0 {
		err = f.Truncate(r.Int64N(st.Size()))
	} else {
		for range 1 + r.IntN(8) {
			var b [1]byte
			off := r.Int64N(st.Size())
			_, _ = f.ReadAt(b[:], off)
			b[0] ^= 1 << r.IntN(8)
			_, err = f.WriteAt(b[:], off)
		}
	}
	testenv.Must(t, err)
}

// A directory whose own entry was in a pack that is gone: check says which one it is.
func TestCheckDirectoryEntry(t *testing.T) {
	dir := tempDir(t)
	src := newSource()
	src.put("a/b/1.jpg", []byte("one"))
	src.put("a/b/2.jpg", []byte("two"))
	src.put("a/b/3.jpg", []byte("two more"))
	src.put("c.jpg", []byte("three"))
	mustPack(t, dir, src, PackOptions{PackBytes: 1})
	for name, b := range packFiles(t, dir) {
		if bytes.Contains(b, append([]byte{3}, "a/b\x02"...)) {
			testenv.Must(t, os.Remove(filepath.Join(dir, packsName, name)))
		}
	}
	testenv.Must(t, os.Remove(filepath.Join(dir, currentName)))
	mustOpen(t, dir) // makes an index of what is left
	problems, err := Check(context.Background(), dir, Options{Logger: quiet}, nil)
	if err != nil || len(problems) != 1 || problems[0].Path != "a/b" || !strings.Contains(problems[0].String(), "2 members") {
		t.Fatalf("check found %v, %v", problems, err)
	}
	mustPack(t, dir, src, PackOptions{})
	checkStore(t, dir, src)
}
