package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
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

	"github.com/pipefs/pipefs/internal/sstable"
	"github.com/pipefs/pipefs/internal/testenv"
)

// memFileRW is a vfs.File in memory.
type memFileRW struct{ b []byte }

func (f *memFileRW) ReadAt(p []byte, off int64) (int, error) {
	return memFileOf(f.b).ReadAt(p, off)
}

func (f *memFileRW) WriteAt(p []byte, off int64) (int, error) {
	f.b = append(f.b[:off], p...)
	return len(p), nil
}

func (f *memFileRW) Size() (int64, error) { return int64(len(f.b)), nil }
func (f *memFileRW) Truncate(int64) error { return fs.ErrPermission }
func (f *memFileRW) Sync() error          { return nil }
func (f *memFileRW) Close() error         { return nil }
func (f *memFileRW) index(s sstable.Seal) *index {
	return &index{table: &table{Table: sstable.New(f, s, entries), f: f}, name: "index"}
}
func testItem(path string, seq int64) []byte {
	return append(make([]byte, leafHead), testEntry(path, seq)...)
}
func testEntry(path string, seq int64) []byte {
	return appendEntry(nil, &Sample{Path: path, Kind: testKind(path), Seq: seq})
}

func testKind(path string) Kind {
	if filepath.Ext(path) == "" {
		return Dir
	}
	return File
}

// treeOf is a table of a few directories in small blocks, and its paths in order.
func treeOf(t testing.TB, blocks int) (*memFileRW, sstable.Seal, []string) {
	t.Helper()
	paths := []string{"", "a", "a/b", "empty", "top.txt", "zz.txt"}
	for i := range 12 {
		paths = append(paths, fmt.Sprintf("a/%02d.jpg", i), fmt.Sprintf("a/b/%02d.jpg", i), fmt.Sprintf("a.d/%02d.jpg", i))
	}
	paths = append(paths, "a.d")
	slices.SortFunc(paths, func(x, y string) int { return sstable.ComparePaths([]byte(x), []byte(y)) })
	f := &memFileRW{}
	w := sstable.NewWriter(f, entries)
	w.Limit(blocks)
	for i, p := range paths {
		testenv.Must(t, w.Add(testItem(p, int64(i))))
	}
	seal, err := w.Finish()
	testenv.Must(t, err)
	return f, seal, paths
}

// askTable asks a table everything. Each answer has to be right, or an error.
func askTable(x *index, paths []string) (errs int, wrong error) {
	note := func(err error, right bool, what string) {
		if err != nil {
			errs++
		} else if !right {
			wrong = errors.Join(wrong, errors.New(what))
		}
	}
	for i, p := range paths {
		s, err := x.get(p)
		note(err, s != nil && s.Path == p && s.Seq == int64(i), "get "+p)
		if testKind(p) == Dir {
			var want []string
			for _, q := range paths {
				if dir, name := splitPath(q); dir == p && q != "" {
					want = append(want, name)
				}
			}
			children, err := x.list(p)
			var got []string
			for _, c := range children {
				got = append(got, c.Name)
			}
			note(err, slices.Equal(got, want), fmt.Sprintf("list %q: %v, want %v", p, got, want))
		}
	}
	for _, p := range []string{"a/", "a/05", "a/99.jpg", "b/1.jpg", "0", "zzz", "a.d/b/1"} {
		s, err := x.get(p)
		note(err, s == nil, "get "+p)
	}
	return errs, wrong
}

func TestTable(t *testing.T) {
	for _, blocks := range []int{1, 100, 200, 1000, 16 << 10} {
		f, seal, paths := treeOf(t, blocks)
		if errs, wrong := askTable(f.index(seal), paths); wrong != nil || errs > 0 {
			t.Errorf("blocks of %d bytes, height %d: %d errors, %v", blocks, seal.Height, errs, wrong)
		}
		if blocks == 200 && seal.Height < 2 {
			t.Errorf("height %d", seal.Height)
		}
	}
	f := &memFileRW{}
	seal, err := sstable.NewWriter(f, entries).Finish()
	testenv.Must(t, err)
	if s, err := f.index(seal).get("a"); s != nil || err != nil {
		t.Errorf("an empty table: %v, %v", s, err)
	}
}

// Every byte of a table in turn is flipped, and it is cut to every length: no name
// is missing without an error, in no directory.
func TestTableDamage(t *testing.T) {
	f, seal, paths := treeOf(t, 200)
	r := random(t)
	for i := range f.b {
		flipped := &memFileRW{slices.Clone(f.b)}
		flipped.b[i] ^= 1 << r.IntN(8)
		if errs, wrong := askTable(flipped.index(seal), paths); wrong != nil || errs == 0 {
			t.Fatalf("byte %d flipped: %d errors, %v", i, errs, wrong)
		}
		cut := &memFileRW{f.b[:i]}
		if errs, wrong := askTable(cut.index(seal), paths); wrong != nil || errs == 0 {
			t.Fatalf("cut to %d bytes: %d errors, %v", i, errs, wrong)
		}
	}
}

// The same while it is open: blocks that were read before stay as they were.
func TestTableDamageWhileOpen(t *testing.T) {
	f, seal, paths := treeOf(t, 200)
	r := random(t)
	for range 500 {
		live := &memFileRW{slices.Clone(f.b)}
		x := live.index(seal)
		for range r.IntN(20) {
			if _, err := x.get(paths[r.IntN(len(paths))]); err != nil {
				t.Fatal(err)
			}
		}
		if r.IntN(2) == 0 {
			live.b = live.b[:r.IntN(len(live.b))]
		} else {
			for range 1 + r.IntN(4) {
				live.b[r.IntN(len(live.b))] ^= 1 << r.IntN(8)
			}
		}
		if _, wrong := askTable(x, paths); wrong != nil {
			t.Fatal(wrong)
		}
	}
}

// FuzzTable has blocks of any content as the root: whoever can forge a checksum gets
// errors, and no panic, no endless walk, no large allocation.
func FuzzTable(f *testing.F) {
	t, seal, _ := treeOf(f, 200)
	f.Add(t.b, int(seal.Root.Off), 2)
	f.Add(t.b[:seal.Root.Off], 0, 1)
	f.Fuzz(func(t *testing.T, b []byte, root, height int) {
		if root < 0 || root > len(b) {
			return
		}
		x := (&memFileRW{b}).index(sstable.Seal{Size: int64(len(b)), Height: height, Root: sstable.Ref{
			Off: int64(root), Len: uint32(len(b) - root), Sum: sum(b[root:]),
		}})
		_, _ = x.get("a/b/07.jpg")
		_, _ = x.list("a")
		_ = x.each(func(*Sample) error { return nil })
	})
}

// FuzzTableFile has files of any content as an index.
func FuzzTableFile(f *testing.F) {
	whole := &memFileRW{}
	w := newTableWriter(whole)
	w.Limit(100)
	for i, p := range []string{"", "a", "a/1.jpg", "a/2.jpg", "b.txt"} {
		testenv.Must(f, w.add(testItem(p, int64(i))))
	}
	_, err := w.finish(packID{1}, 1)
	testenv.Must(f, err)
	f.Add(whole.b)
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) >= tableTrailer { // checksums that fit let more of the input through
			b = bytes.Clone(b)
			trailer := b[len(b)-tableTrailer:]
			binary.LittleEndian.PutUint32(trailer[52:], sum(trailer[:52]))
		}
		file, err := openTable(memFileOf(b), packID{1}, 1)
		if err != nil {
			return
		}
		x := &index{table: file, name: "index"}
		_, _ = x.get("a/1.jpg")
		_, _ = x.list("a")
		_ = x.each(func(*Sample) error { return nil })
	})
}

// logLines is a logger, and what it was told.
func logLines() (*slog.Logger, *bytes.Buffer) {
	var b bytes.Buffer
	return slog.New(slog.NewTextHandler(&b, nil)), &b
}

// The index of a store is damaged before it is opened, and its table while it is open: it
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
			damage([]string{currentName, generationsName + "/*", indexName + "/*" + tableSuffix}[r.IntN(3)])
			problems, err := Check(context.Background(), dir, Options{Logger: quiet})
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
			damage(indexName + "/*" + tableSuffix)
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
	problems, err := Check(context.Background(), dir, Options{Logger: quiet})
	if err != nil || len(problems) != 1 || problems[0].Path != "a/b" || !strings.Contains(problems[0].String(), "2 members") {
		t.Fatalf("check found %v, %v", problems, err)
	}
	mustPack(t, dir, src, PackOptions{})
	checkStore(t, dir, src)
}
