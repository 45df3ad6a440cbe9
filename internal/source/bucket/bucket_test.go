package bucket

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pipefs/pipefs/internal/blockcache"
	"github.com/pipefs/pipefs/internal/source"
	"github.com/pipefs/pipefs/internal/source/names"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/store/blob"
)

// treeOf is what a tree of these names holds, by directory: names, with a slash behind directories.
func treeOf(names []string) map[string][]string {
	dirs := map[string]map[string]bool{"": {}}
	for _, name := range names {
		for dir := name; dir != ""; {
			above, last := path.Split(dir)
			above = strings.TrimSuffix(above, "/")
			if dirs[above] == nil {
				dirs[above] = map[string]bool{}
			}
			if dir != name {
				last += "/"
			}
			dirs[above][last] = true
			dir = above
		}
	}
	tree := map[string][]string{}
	for dir, members := range dirs {
		for name := range members {
			if !members[name+"/"] { // else a directory hides it
				tree[dir] = append(tree[dir], name)
			}
		}
		slices.SortFunc(tree[dir], func(a, b string) int {
			return strings.Compare(strings.TrimSuffix(a, "/"), strings.TrimSuffix(b, "/"))
		})
	}
	return tree
}

// checkTree compares a bucket with its place.
func checkTree(t *testing.T, b *Bucket, m *memory) {
	t.Helper()
	var fit []string
	for name := range m.data {
		if names.Unfit(name) == "" {
			fit = append(fit, name)
		}
	}
	tree := treeOf(fit)
	files := 0
	for dir, want := range tree {
		found, err := b.List(dir)
		testenv.Must(t, err)
		var got []string
		for _, e := range found {
			if e.Dir {
				e.Name += "/"
			}
			got = append(got, e.Name)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%q holds %q, want %q", dir, got, want)
		}
		if a, err := b.Stat(dir); err != nil || !a.Mode.IsDir() {
			t.Fatalf("stat %q: %+v, %v", dir, a, err)
		}
		for _, name := range want {
			if strings.HasSuffix(name, "/") {
				continue
			}
			files++
			full := path.Join(dir, name)
			a, err := b.Stat(full)
			if i := m.info(full); err != nil || !a.Mode.IsRegular() || a.Size != i.Size || a.MTime != i.Modified.UnixNano() {
				t.Fatalf("stat %q: %+v, %v", full, a, err)
			}
			for _, none := range []string{full + "/x", full + "-", full[:len(full)-1]} {
				if slices.Contains(fit, none) || tree[none] != nil {
					continue
				}
				if _, err := b.Stat(none); !errors.Is(err, fs.ErrNotExist) {
					t.Fatalf("stat %q: %v", none, err)
				}
			}
		}
	}
	if n := b.Summary().Objects; n != int64(files) {
		t.Errorf("%d objects, want %d", n, files)
	}
	if _, err := b.List("none/at/all"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("list of a directory that is not there: %v", err)
	}
}

func TestTrees(t *testing.T) {
	r := rand.New(rand.NewPCG(20, 1))
	classes := map[string]string{"README": "r", "train.txt": "t"}
	for i := range 700 {
		classes[fmt.Sprintf("train/n%08d/%d.JPEG", i*7919%100000000, i)] = "x"
		if i%100 == 0 {
			classes[fmt.Sprintf("train/n%08d.txt", i*7919%100000000)] = "beside"
		}
	}
	random := map[string]string{}
	for range 3000 {
		var parts []string
		for range 1 + r.IntN(4) {
			parts = append(parts, string([]rune("ab-./é0")[r.IntN(7)])+string("ab.-"[r.IntN(4)]))
		}
		random[strings.Join(parts, "/")] = "x"
	}
	deep := map[string]string{}
	for i := range 200 {
		deep[fmt.Sprintf("a/b/c/d/e/f/g/h/%d/%d", i%3, i)] = "x"
	}
	for name, data := range map[string]map[string]string{
		"one":     {"a": "x"},
		"odd":     {"a": "x", "a-": "x", "a/b": "x", "a0": "x", "/lead": "x", "x//y": "x", "d/../e": "x", ".": "x", "m/": "", "m/k": "x", "\xff": "x", strings.Repeat("l", 256): "x"},
		"hidden":  {"a": "12345", "a/b": "x", "a/b/c": "x"},
		"classes": classes, "random": random, "deep": deep,
	} {
		t.Run(name, func(t *testing.T) {
			m := newMemory(data)
			m.page = 7
			b := openPlace(t, m, Options{MaxAge: -1})
			checkTree(t, b, m)
			s := b.Summary()
			left := int64(0)
			for name, data := range m.data {
				if names.Unfit(name) != "" && (data != "" || !strings.HasSuffix(name, "/")) {
					left++
				}
			}
			if s.LeftOut != left+s.Shadowed {
				t.Errorf("%d left out, %d of them hidden; want %d", s.LeftOut, s.Shadowed, left)
			}
			if name == "hidden" && (s.Shadowed != 2 || s.Bytes != 1) {
				t.Errorf("%+v", s)
			}
		})
	}
}

// A place without objects is misspelled: nothing is kept of it.
func TestEmpty(t *testing.T) {
	dir := t.TempDir()
	for _, data := range []map[string]string{{}, {"a//b": "x"}} {
		if _, err := Open(t.Context(), newMemory(data), Options{Dir: dir, MaxAge: -1}); !errors.Is(err, ErrEmpty) {
			t.Errorf("opened a place with %d objects: %v", len(data), err)
		}
	}
	if left, err := filepath.Glob(dir + "/*"); err != nil || len(left) != 1 { // the lock
		t.Errorf("left behind: %q, %v", left, err)
	}
}

// Where no list can be kept, the place is listed all the same, and again for a rescan.
func TestListCannotBeKept(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	testenv.Must(t, os.WriteFile(file, nil, 0o600))
	m := newMemory(map[string]string{"a": "x"})
	b := openPlace(t, m, Options{Dir: filepath.Join(file, "lists"), MaxAge: -1})
	checkTree(t, b, m)
	m.put("b/c", "x")
	if _, now, err := b.Rescan(t.Context()); err != nil || now.Objects != 2 {
		t.Errorf("%+v, %v", now, err)
	}
	checkTree(t, b, m)
}

// The directory of lists may go at any time.
func TestListsGo(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "lists")
	m := newMemory(map[string]string{"a": "x"})
	b := openPlace(t, m, Options{Dir: dir, MaxAge: -1})
	testenv.Must(t, os.RemoveAll(dir))
	m.put("b", "x")
	if _, now, err := b.Rescan(t.Context()); err != nil || now.Objects != 2 {
		t.Errorf("%+v, %v", now, err)
	}
	checkTree(t, b, m)
}

// Very many directories are listed in few requests, several at once.
func TestListingIsDivided(t *testing.T) {
	data := map[string]string{}
	for i := range 20_000 {
		data[fmt.Sprintf("train/%05d/x", i)] = "x"
	}
	m := newMemory(data)
	b := openPlace(t, m, Options{MaxAge: -1})
	if n := b.Summary().Objects; n != 20_000 {
		t.Errorf("%d objects", n)
	}
	// 20 pages of directories, then as many parts as may be
	if n := m.lists.Load(); n < listings || n > 2*maxParts {
		t.Errorf("%d requests", n)
	}
}

// A damaged manifest is an error, or what was damaged was not asked for.
func TestManifestDamage(t *testing.T) {
	data := map[string]string{}
	for i := range 300 {
		data[fmt.Sprintf("d%d/%d.jpg", i%7, i)] = strings.Repeat("x", i)
	}
	m := newMemory(data)
	file := filepath.Join(t.TempDir(), "m")
	_, err := Write(t.Context(), m, file, WriteOptions{})
	testenv.Must(t, err)
	tree := treeOf(slices.Collect(maps.Keys(data)))
	r := rand.New(rand.NewPCG(20, 2))
	ask := func(what string) {
		m, err := OpenManifest(file)
		if err != nil {
			if !errors.Is(err, ErrManifest) {
				t.Errorf("%s: %v", what, err)
			}
			return
		}
		defer m.Close()
		failed := false
		for name, content := range data {
			i, err := m.find(name)
			failed = failed || err != nil
			if err != nil && !errors.Is(err, ErrManifest) || err == nil && i.Size != int64(len(content)) {
				t.Fatalf("%s: %s: %+v, %v", what, name, i, err)
			}
		}
		for dir, want := range tree {
			found, err := m.list(dir)
			failed = failed || err != nil
			if err == nil && len(found) != len(want) {
				t.Fatalf("%s: %q has %d members, want %d", what, dir, len(found), len(want))
			}
		}
		if !failed {
			t.Errorf("%s: nobody noticed", what)
		}
	}
	parts, err := filepath.Glob(file + "/*")
	if err != nil || len(parts) < 3 {
		t.Fatal(parts, err)
	}
	for _, part := range parts {
		whole, err := os.ReadFile(part)
		testenv.Must(t, err)
		testenv.Must(t, os.Chmod(part, 0o600))
		for i := 0; i < len(whole); i += 1 + r.IntN(len(whole)/100+1) {
			b := slices.Clone(whole)
			b[i] ^= 1 << r.IntN(8)
			testenv.Must(t, os.WriteFile(part, b, 0))
			ask(fmt.Sprintf("byte %d of %d of %s flipped", i, len(whole), part))
			testenv.Must(t, os.WriteFile(part, whole[:i], 0))
			ask(fmt.Sprintf("%s cut to %d of %d bytes", part, i, len(whole)))
		}
		testenv.Must(t, os.WriteFile(part, whole, 0))
	}
}

// Reads give the bytes; an object that is not long takes one request, however it is read.
func TestReads(t *testing.T) {
	r := rand.New(rand.NewPCG(20, 3))
	data := map[string]string{"empty": ""}
	for i, n := range []int{1, 4095, 110_000, wholeBytes, wholeBytes + 1, 3*blockBytes + 5} {
		b := make([]byte, n)
		for k := range b {
			b[k] = byte(r.Uint32())
		}
		data[fmt.Sprintf("%d.jpg", i)] = string(b)
	}
	m := newMemory(data)
	cache, err := blockcache.Open(t.TempDir(), blockcache.Options{})
	testenv.Must(t, err)
	defer cache.Close()
	for _, c := range []*blockcache.Cache{nil, cache} {
		b := openPlace(t, m, Options{MaxAge: -1, Cache: c})
		for name, want := range data {
			m.reads.Store(0)
			f, err := b.Open(name)
			testenv.Must(t, err)
			if len(want) > 100 {
				// the header first, as a view is looked up
				head := make([]byte, 100)
				if n, err := f.ReadAt(head, 3); n != 100 || err != nil || string(head[:n]) != want[3:103] {
					t.Errorf("%s: the header: %d bytes, %v", name, n, err)
				}
			}
			got, err := f.ReadAll()
			if err != nil || string(got) != want {
				t.Errorf("%s: %d bytes, %v", name, len(got), err)
			}
			if n := m.reads.Load(); len(want) <= wholeBytes && n > 1 {
				t.Errorf("%s: %d requests", name, n)
			}
			var readers sync.WaitGroup
			for range 4 {
				from := r.Int64N(int64(len(want)) + 1)
				length := r.IntN(300_000)
				readers.Go(func() {
					p := make([]byte, length)
					n, err := f.ReadAt(p, from)
					end := min(from+int64(length), int64(len(want)))
					if string(p[:n]) != want[from:end] || (n < length) != errors.Is(err, io.EOF) || err != nil && !errors.Is(err, io.EOF) {
						t.Errorf("%s: %d bytes from %d on: %d, %v", name, length, from, n, err)
					}
				})
			}
			readers.Wait()
			testenv.Must(t, errors.Join(f.Verify(), f.Close()))
			if n := b.windows.blocks.Len(); n != 0 {
				t.Errorf("%s: %d blocks are kept of a closed file", name, n)
			}
		}
	}
}

// Of an object that is looked at less is fetched.
func TestScattered(t *testing.T) {
	m := newMemory(map[string]string{"a.jpg": strings.Repeat("x", 2<<20)})
	b := openPlace(t, m, Options{MaxAge: -1})
	f, err := b.Open("a.jpg")
	testenv.Must(t, err)
	defer f.Close()
	f.Scattered()
	p := make([]byte, 100)
	for off := range int64(10) {
		_, err := f.ReadAt(p, off*100)
		testenv.Must(t, err)
	}
	if n := m.reads.Load(); n != 1 || f.Opened.(*file).last != headerBytes {
		t.Errorf("%d requests, up to byte %d", n, f.Opened.(*file).last)
	}
}

// An object that is replaced is no other file, until the place is listed again.
func TestReplaced(t *testing.T) {
	m := newMemory(map[string]string{"d/a": "old bytes", "d/b": "b"})
	b := openPlace(t, m, Options{MaxAge: -1})
	before, err := b.Stat("d/a")
	testenv.Must(t, err)
	open, err := b.Open("d/a")
	testenv.Must(t, err)
	defer open.Close()
	m.put("d/a", "new bytes")
	m.put("e/c", "c")
	for range 2 {
		if got, err := open.ReadAll(); !errors.Is(err, source.ErrChanged) {
			t.Errorf("read %q, %v", got, err)
		}
	}
	if !errors.Is(open.Verify(), source.ErrChanged) || b.Replaced() != 1 {
		t.Errorf("%d were replaced", b.Replaced())
	}
	if _, err := b.Stat("e/c"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what was not listed is there: %v", err)
	}
	was, now, err := b.Rescan(t.Context())
	if err != nil || was.Objects != 2 || now.Objects != 3 {
		t.Errorf("%+v, %+v, %v", was, now, err)
	}
	checkTree(t, b, m)
	after, err := b.Stat("d/a")
	if err != nil || after.Identity == before.Identity {
		t.Errorf("the same identity: %+v, %v", after, err)
	}
	if _, err := b.OpenAs("d/a", before.Identity); !errors.Is(err, source.ErrChanged) {
		t.Errorf("opened as what it was: %v", err)
	}
	f, err := b.OpenAs("d/a", after.Identity)
	testenv.Must(t, err)
	defer f.Close()
	if got, err := f.ReadAll(); string(got) != "new bytes" || err != nil {
		t.Errorf("read %q, %v", got, err)
	}
}

// A place is listed once for several mounts, and again when the list is too old or damaged.
func TestKept(t *testing.T) {
	m := newMemory(map[string]string{"a": "x"})
	dir := t.TempDir()
	open := func(age time.Duration, server string) (lists int64) {
		m.lists.Store(0)
		b, err := Open(t.Context(), m, Options{Dir: dir, MaxAge: age, Server: server})
		testenv.Must(t, err)
		checkTree(t, b, m)
		testenv.Must(t, b.Close())
		return m.lists.Load()
	}
	if n := open(-1, ""); n == 0 {
		t.Error("nothing was listed")
	}
	if n := open(-1, ""); n != 0 {
		t.Errorf("%d requests although there is a list", n)
	}
	if n := open(time.Hour, ""); n != 0 {
		t.Errorf("%d requests although the list is young", n)
	}
	if n := open(0, ""); n == 0 {
		t.Error("nothing was listed although the list is too old")
	}
	if n := open(-1, "other.example"); n == 0 {
		t.Error("the list of another server was used")
	}
	files, err := filepath.Glob(dir + "/*.names")
	if err != nil || len(files) != 2 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		testenv.Must(t, os.Truncate(filepath.Join(f, "INDEX.json"), 20))
	}
	if n := open(-1, ""); n == 0 {
		t.Error("a damaged list was used")
	}
	if left, _ := filepath.Glob(dir + "/.*"); len(left) != 0 {
		t.Errorf("left behind: %q", left)
	}
}

// A manifest that is given is used as it is, for the place that it lists.
func TestGiven(t *testing.T) {
	m := newMemory(map[string]string{"a": "x"})
	given := filepath.Join(t.TempDir(), "m")
	_, err := Write(t.Context(), m, given, WriteOptions{})
	testenv.Must(t, err)
	m.lists.Store(0)
	b := openPlace(t, m, Options{Manifest: given, MaxAge: 0})
	checkTree(t, b, m)
	m.put("b", "y")
	if renewed, err := b.Refresh(t.Context()); renewed || err != nil {
		t.Errorf("refreshed: %v, %v", renewed, err)
	}
	if n := m.lists.Load(); n != 0 {
		t.Errorf("%d requests", n)
	}
	_, err = Write(t.Context(), m, given, WriteOptions{})
	testenv.Must(t, err)
	_, _, err = b.Rescan(t.Context())
	testenv.Must(t, err)
	checkTree(t, b, m)
	other, err := blob.OpenDirectory(t.TempDir())
	testenv.Must(t, err)
	if _, err := Open(t.Context(), other, Options{Manifest: given}); err == nil || !strings.Contains(err.Error(), "lists s3://bucket/data") {
		t.Errorf("opened the manifest of another place: %v", err)
	}
}
