package fs

import (
	"bytes"
	"errors"
	iofs "io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pipefs/pipefs/internal/source"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/transcode"
)

// fixedSource is a tree of one directory; names that end in a slash are
// directories.
type fixedSource struct {
	names   []string
	version int64
	stat    map[string]source.Attr
}

func (s *fixedSource) List(string) (found []source.Entry, err error) {
	for _, n := range s.names {
		name, dir := strings.CutSuffix(n, "/")
		found = append(found, source.Entry{Name: name, Dir: dir})
	}
	return found, nil
}

func (s *fixedSource) Stat(path string, _ bool) (source.Attr, error) {
	if path == "" {
		return source.Attr{Mode: iofs.ModeDir | 0o755, Identity: source.Identity{MTime: s.version, CTime: s.version}}, nil
	}
	if a, ok := s.stat[path]; ok {
		return a, nil
	}
	return source.Attr{Mode: 0o644}, nil
}

// namesIn returns the names of a directory with these members.
func namesIn(t *testing.T, spec string, roles transcode.Roles, own []string) *names {
	t.Helper()
	tr := newTree(&fixedSource{names: own})
	s, _, err := tr.refresh(tr.dir(rootID), nil)
	testenv.Must(t, err)
	reg := testRegistry()
	p, err := reg.Parse(spec)
	testenv.Must(t, err)
	return &names{t: tr, s: s, reg: reg, pipeline: p, roles: roles}
}

func TestListedNames(t *testing.T) {
	long := strings.Repeat("x", 251)
	masks := transcode.Roles{Masks: []string{"*.png"}}
	for _, c := range []struct {
		what, spec string
		roles      transcode.Roles
		own, want  string // own names with a slash for directories, in any order
	}{
		{what: "plain", spec: "bmp", own: "a.jpg b.png", want: "a.bmp b.bmp"},
		{what: "no sample", spec: "bmp", own: "a.txt b README .jpg", want: "a.txt b README .jpg"},
		{what: "original", spec: "original", own: "a.jpg a.png a.bmp", want: "a.jpg a.png a.bmp"},
		{what: "same format", spec: "bmp", own: "a.bmp", want: "a.bmp"},
		{what: "case", spec: "bmp", own: "A.JPG b.JpEg", want: "A.bmp b.bmp"},
		{what: "two sources", spec: "bmp", own: "a.jpg a.png", want: "a.jpg.bmp a.png.bmp"},
		{what: "three sources", spec: "bmp", own: "a.jpg a.jpeg a.png", want: "a.jpg.bmp a.jpeg.bmp a.png.bmp"},
		{what: "two cases", spec: "bmp", own: "a.jpg a.JPG", want: "a.jpg.bmp a.JPG.bmp"},
		{what: "real target", spec: "bmp", own: "a.jpg a.bmp", want: "a.jpg.bmp a.bmp"},
		{what: "real target of another kind", spec: "npy", own: "a.jpg a.npy", want: "a.jpg.npy a.npy"},
		{what: "directory has the target", spec: "bmp", own: "a.jpg a.bmp/", want: "a.jpg.bmp a.bmp"},
		{what: "directory like a sample", spec: "bmp", own: "a.jpg/ b.jpg", want: "a.jpg b.bmp"},
		{what: "full name exists", spec: "bmp", own: "a.jpg a.png a.jpg.bmp", want: "a.jpg a.png.bmp a.jpg.bmp"},
		{what: "full name is another's target", spec: "bmp", own: "a.jpg a.png a.jpg.png", want: "a.jpg a.png.bmp a.jpg.bmp"},
		{what: "full name is a directory", spec: "bmp", own: "a.jpg a.png a.png.bmp/", want: "a.jpg.bmp a.png a.png.bmp"},
		{what: "own names", spec: "bmp-own", own: "a.JPEG a.png a.bmp b.txt", want: "a.JPEG a.png a.bmp b.txt"},
		{what: "materialized", spec: "stored-bmp", own: "a.jpg a.png b.png c.txt", want: "a.jpg a.png b.png c.txt"},
		{what: "same format, changed", spec: "resize256-jpeg90", own: "a.JPEG b.jpg c.png", want: "a.jpg b.jpg c.jpg"},
		{what: "same format, changed, twice", spec: "jpeg90", own: "a.JPEG a.jpg", want: "a.JPEG.jpg a.jpg"},
		{what: "dots", spec: "bmp", own: "a.b.jpg a.jpg a.b.c.png", want: "a.b.bmp a.bmp a.b.c.bmp"},
		{what: "stem of another", spec: "bmp", own: "a a.jpg a- a-.jpg", want: "a a.bmp a- a-.bmp"},
		{what: "255 bytes", spec: "bmp", own: long + ".jpg", want: long + ".bmp"},
		{what: "longer than 255 bytes", spec: "jpeg90", own: long + "xx.b " + long + ".bmp", want: long + "xx.b " + long + ".jpg"},
		{what: "full name too long", spec: "bmp", own: long + ".jpg " + long + ".png", want: long + ".jpg " + long + ".png"},
		{what: "unicode", spec: "bmp", own: "猫.jpg é.png", want: "猫.bmp é.bmp"},
		{what: "mask in a lossy view", spec: "jpeg90", roles: masks, own: "a.png b.bmp", want: "a.png b.jpg"},
		{what: "mask in an exact view", spec: "bmp", roles: masks, own: "a.png", want: "a.bmp"},
		{what: "order of packing", spec: "bmp", own: "z.jpg a.png z.png b.txt", want: "z.jpg.bmp a.bmp z.png.bmp b.txt"},
	} {
		t.Run(c.what, func(t *testing.T) {
			n := namesIn(t, c.spec, c.roles, strings.Fields(c.own))
			var got []string
			for i := range n.s.ids {
				got = append(got, n.listedOf(i))
			}
			if diff := cmp.Diff(strings.Fields(c.want), got); diff != "" {
				t.Error(diff)
			}
			checkNames(t, n)
		})
	}
}

// checkNames checks what holds in every directory and view.
func checkNames(t *testing.T, n *names) {
	t.Helper()
	listed := map[string]int{}
	for k := range n.s.ids {
		name := n.listed(k)
		if other, twice := listed[name]; twice {
			t.Errorf("%q and %q are both listed as %q", n.own(other), n.own(k), name)
		}
		if !validName(name) {
			t.Errorf("%q is listed as %q", n.own(k), name)
		}
		listed[name] = k
	}
	for name, k := range listed {
		if got := n.find(name); got != k {
			t.Errorf("%q is listed as %q, which leads to %d, not %d", n.own(k), name, got, k)
		}
	}
	for k := range n.s.ids {
		want := k
		if by, shadowed := listed[n.own(k)]; shadowed {
			want = by
		}
		if got := n.find(n.own(k)); got != want {
			t.Errorf("the own name %q leads to %d, not %d", n.own(k), got, want)
		}
	}
	for _, none := range []string{"none", "none.bmp", "a", "a.b.c.d", ".", "x.jpg.bmp"} {
		if k := n.find(none); k >= 0 && n.own(k) != none && n.listed(k) != none {
			t.Errorf("%q leads to %q, listed as %q", none, n.own(k), n.listed(k))
		}
	}
}

// TestNamesOfRandomDirectories: every file has one listed name, listed names are
// unique, own names lead to the same entry; and what a name's coming or going
// changes is among what alike returns.
func TestNamesOfRandomDirectories(t *testing.T) {
	seed := testenv.Seed(t)
	rnd := rand.New(rand.NewPCG(seed, 0))
	stems := []string{"a", "b", "a.jpg", "a.bmp", "a.b", strings.Repeat("l", 247), strings.Repeat("l", 251), "a-", "é", ""}
	exts := []string{".jpg", ".JPG", ".jpeg", ".png", ".bmp", ".npy", ".txt", "", ".jpg.bmp", ".png.bmp", ".png.jpg"}
	specs := []string{"original", "bmp", "bmp-own", "stored-png", "npy", "png", "jpeg90", "scan5", "resize256-npy", "resize8-jpeg75"}
	roles := []transcode.Roles{{}, {Masks: []string{"*.png"}}, {Images: []string{"a*"}, Masks: []string{"*.JPG"}}}
	rounds := 1000
	switch {
	case testing.Short():
		rounds = 400
	case testenv.Soak():
		rounds = 40_000
	}
	for range rounds {
		members := map[string]bool{}
		for range rnd.IntN(12) {
			name := stems[rnd.IntN(len(stems))] + exts[rnd.IntN(len(exts))]
			if validName(name) {
				members[name] = rnd.IntN(8) == 0
			}
		}
		var own []string
		for name, dir := range members { // in random order
			if dir {
				name += "/"
			}
			own = append(own, name)
		}
		spec, r := specs[rnd.IntN(len(specs))], roles[rnd.IntN(len(roles))]
		n := namesIn(t, spec, r, own)
		checkNames(t, n)
		if len(own) > 0 {
			checkAlike(t, n, namesIn(t, spec, r, own[1:]), strings.TrimSuffix(own[0], "/"))
		}
		if t.Failed() {
			t.Fatalf("in %s of %q", spec, own)
		}
	}
}

// checkAlike: with lacks nothing but one name of without.
func checkAlike(t *testing.T, with, without *names, name string) {
	t.Helper()
	told := map[string]bool{name: true}
	for _, n := range []*names{with, without} {
		for _, k := range n.alike(name) {
			told[n.own(k)], told[n.listed(k)] = true, true
		}
	}
	for k := range without.s.ids {
		own := without.own(k)
		before := without.listed(k)
		if after := with.listed(with.t.search(with.s, own)); after != before && !(told[before] && told[after]) {
			t.Errorf("when %q comes or goes, %q is listed as %q or %q, but not all of that is told", name, own, before, after)
		}
	}
}

// TestRefused wants a view that is refused to be none: not by its name, not by a link, not
// as a list; and what is refused now may be entered later.
func TestRefused(t *testing.T) {
	root := t.TempDir()
	testenv.Must(t, os.WriteFile(filepath.Join(root, "a.jpg"), []byte("a picture"), 0o644))
	d, err := source.Open(root, source.Options{})
	testenv.Must(t, err)
	defer d.Close()
	refused := map[string]bool{"original": true, "scan5": true}
	var log bytes.Buffer
	f, err := New(Options{
		Registry: testRegistry(), Server: newServer(t, testRegistry(), d, PageCache), Log: slog.New(slog.NewTextHandler(&log, nil)),
		Refuse: func(v transcode.Pipeline) error {
			if refused[v.String()] {
				return errors.New("there is nothing to show")
			}
			return nil
		},
	})
	testenv.Must(t, err)
	for range 2 {
		for path, there := range map[string]bool{"original/a.jpg": false, "scan5/a.jpg": false, "bmp/a.bmp": true, ".pipefs/lists/scan5.txt": false} {
			if _, status := lookUp(f, strings.Split(path, "/")...); status.Ok() != there {
				t.Errorf("%s: %v", path, status)
			}
		}
	}
	if got := strings.Count(log.String(), "there is nothing to show"); got != 2 {
		t.Errorf("explained %d times, want once for each view:\n%s", got, log.String())
	}
	if err := f.SetCurrent("scan5"); err == nil || !strings.Contains(err.Error(), "there is nothing to show") {
		t.Error(err)
	}
	delete(refused, "original")
	if _, status := lookUp(f, "original", "a.jpg"); !status.Ok() {
		t.Error(status)
	}
}
