package fs

import (
	"fmt"
	iofs "io/fs"
	"runtime"
	"strings"
	"testing"

	"github.com/pipefs/pipefs/internal/account"
	"github.com/pipefs/pipefs/internal/source"
	"github.com/pipefs/pipefs/internal/testenv"
)

func ids(s *snapshot) (list []uint32) {
	for i := range s.ids {
		list = append(list, s.at(i))
	}
	return list
}

func TestEntriesKeepTheirIds(t *testing.T) {
	src := &fixedSource{names: []string{"a", "b", "c/"}, version: 1, stat: map[string]source.Attr{}}
	tr := newTree(src)
	d := tr.dir(rootID)
	first, _, err := tr.refresh(d, nil)
	testenv.Must(t, err)
	a, b, c := first.at(0), first.at(1), first.at(2)
	relist := func(version int64, names ...string) (*snapshot, *change) {
		t.Helper()
		src.version, src.names = version, names
		s, diff, err := tr.refresh(d, nil)
		testenv.Must(t, err)
		return s, diff
	}
	if s, diff := relist(1, "a", "new"); s != first || diff != nil {
		t.Error("the directory was listed again though it did not change")
	}
	if s, diff := relist(2, "a", "b", "c/"); s != first || diff != nil {
		t.Error("a listing that says the same is another one")
	}
	s, diff := relist(3, "c/", "0", "b")
	if diff == nil || strings.Join(diff.names, " ") != "0 a" {
		t.Errorf("changed names: %+v", diff)
	}
	if s.at(0) != c || s.at(2) != b || s.at(1) <= c {
		t.Errorf("ids were %d %d %d, and of c, 0, b are now %v", a, b, c, ids(s))
	}
	if s.version != first.version+1 || first.at(0) != a || len(first.ids) != 3 {
		t.Error("the former listing changed")
	}
	s, _ = relist(4, "b/", "c/")
	if s.at(0) == b || s.at(1) != c {
		t.Error("a file that became a directory kept its id")
	}
	if got := tr.path(s.at(0)); got != "b" {
		t.Errorf("path %q", got)
	}
	s, _ = relist(5, "b/", "a")
	if s.at(1) == a {
		t.Error("a file that came back has its former id")
	}
}

func TestChangedFilesGetAnotherId(t *testing.T) {
	file := func(size int64) source.Attr {
		return source.Attr{Mode: 0o644, Identity: source.Identity{ID: 1, Size: size}}
	}
	src := &fixedSource{names: []string{"a", "b"}, version: 1, stat: map[string]source.Attr{"a": file(1), "b": file(1)}}
	tr := newTree(src)
	d := tr.dir(rootID)
	s, _, _ := tr.refresh(d, nil)
	a, b := s.at(0), s.at(1)
	if _, ok := tr.known(a); ok {
		t.Error("listing looked at a file")
	}
	if id, changed := tr.identify(d, a, file(1), 0); id != a || changed {
		t.Error("the first look at a file changed it")
	}
	if id, changed := tr.identify(d, a, file(1), 0); id != a || changed {
		t.Error("the second look at a file changed it")
	}
	again, changed := tr.identify(d, a, file(2), 0)
	if again == a || !changed || s.at(0) != again || tr.path(again) != "a" {
		t.Errorf("a changed file: id %d, was %d, listed %d", again, a, s.at(0))
	}
	if old, _ := tr.known(a); old.Size != 1 {
		t.Error("the former entry changed")
	}
	// Who still has the former id is led to the new one.
	if id, changed := tr.identify(d, a, file(2), 0); id != again || !changed {
		t.Errorf("the former id leads to %d", id)
	}
	// Renamed onto, so that the directory changed: noticed by listing, where the
	// file was looked at before.
	src.version, src.stat["a"], src.stat["b"] = 2, file(3), file(3)
	s, diff, err := tr.refresh(d, nil)
	if err != nil || diff == nil || strings.Join(diff.names, " ") != "a" || s.at(0) == again || s.at(1) != b {
		t.Errorf("after listing: %v, %+v, %v", ids(s), diff, err)
	}
}

func TestPaths(t *testing.T) {
	tr := newTree(&fixedSource{})
	p := packer{t: tr, dir: rootID}
	var a, b, c uint32
	p.add("é", isDir, false, &a)
	p.finish()
	p = packer{t: tr, dir: a}
	p.add("b c", isDir, false, &b)
	p.finish()
	p = packer{t: tr, dir: b}
	p.add("d.jpg", isFile, false, &c)
	p.finish()
	for id, want := range map[uint32]string{rootID: "", a: "é", b: "é/b c", c: "é/b c/d.jpg"} {
		if got := tr.path(id); got != want {
			t.Errorf("path of %d is %q, want %q", id, got, want)
		}
	}
	if tr.dir(c) != nil || tr.dir(99) != nil || tr.entries.at(0) != nil || tr.entries.at(1<<31) != nil {
		t.Error("what is not there was found")
	}
}

// manyFiles lists dirs directories of files files each, with names as ImageNet
// has them.
type manyFiles struct{ dirs, files int }

func (m manyFiles) List(dir string) (found []source.Entry, err error) {
	if dir == "" {
		for i := range m.dirs {
			found = append(found, source.Entry{Name: fmt.Sprintf("n%08d", i), Dir: true})
		}
		return found, nil
	}
	for i := range m.files {
		found = append(found, source.Entry{Name: fmt.Sprintf("ILSVRC2012_val_%08d.JPEG", i)})
	}
	return found, nil
}

func (m manyFiles) Stat(path string, _ bool) (source.Attr, error) {
	if strings.Contains(path, "/") {
		return source.Attr{Mode: 0o644, Identity: source.Identity{ID: uint64(len(path)), Size: 110000}}, nil
	}
	return source.Attr{Mode: iofs.ModeDir | 0o755}, nil
}

// treeMemory lists and, if looked, looks at every file, and returns the bytes of
// memory a file takes.
func treeMemory(tb testing.TB, m manyFiles, looked bool) float64 {
	heap := func() uint64 {
		runtime.GC()
		runtime.GC()
		var s runtime.MemStats
		runtime.ReadMemStats(&s)
		return s.HeapAlloc
	}
	before := heap()
	tr := newTree(m)
	root, _, err := tr.refresh(tr.dir(rootID), nil)
	testenv.Must(tb, err)
	vs := newViews(DefaultMaxViews, account.New())
	bmp, err := testRegistry().Parse("bmp")
	testenv.Must(tb, err)
	second, _, err := vs.add(bmp, false)
	testenv.Must(tb, err)
	for i := range root.ids {
		d := tr.dir(root.at(i))
		d.see(vs.at(originalView), 0)
		d.see(second, 0)
		s, _, err := tr.refresh(d, nil)
		testenv.Must(tb, err)
		for k := range s.ids {
			if !looked {
				break
			}
			a, _ := m.Stat(tr.path(s.at(k)), false)
			tr.identify(d, s.at(k), a, 0)
		}
	}
	used := float64(heap() - before)
	runtime.KeepAlive(tr)
	return used / float64(m.dirs*m.files)
}

func TestTreeMemory(t *testing.T) {
	for _, m := range []manyFiles{{1, 20_000}, {200, 100}} {
		for _, looked := range []bool{false, true} {
			per := treeMemory(t, m, looked)
			t.Logf("%d directories of %d files, looked at: %v: %.1f bytes a file", m.dirs, m.files, looked, per)
			if per > 200 {
				t.Errorf("%.1f bytes a file, at most 200 are allowed", per)
			}
		}
	}
}
