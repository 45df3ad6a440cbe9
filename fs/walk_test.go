package fs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pipefs/pipefs/internal/source"
	"github.com/pipefs/pipefs/internal/testenv"
)

// unlistable fails to list one directory.
type unlistable struct {
	source.Dataset
	dir string
}

func (u unlistable) List(dir string) ([]source.Entry, error) {
	if dir == u.dir {
		return nil, os.ErrPermission
	}
	return u.Dataset.List(dir)
}

// TestWalk walks without a mount, past a directory that cannot be listed, and as
// far as is wanted.
func TestWalk(t *testing.T) {
	root := t.TempDir()
	for _, dir := range []string{"b", "closed", "empty/deep"} {
		testenv.Must(t, os.MkdirAll(filepath.Join(root, dir), 0o755))
	}
	for _, name := range []string{"a.jpg", "a.png", "b/c.jpg", "b/labels.txt", "closed/d.jpg", "z.jpg"} {
		testenv.Must(t, os.WriteFile(filepath.Join(root, name), nil, 0o644))
	}
	d, err := source.Open(root, source.Options{})
	testenv.Must(t, err)
	defer d.Close()
	f, err := New(Options{Registry: testRegistry(), Server: newServer(t, testRegistry(), unlistable{d, "closed"}, PageCache)})
	testenv.Must(t, err)
	p, err := f.reg.Parse("bmp")
	testenv.Must(t, err)
	members, err := f.Walk(p)
	testenv.Must(t, err)
	var got []string
	for m, err := range members {
		line := m.Path + " " + m.Listed
		if m.Dir {
			line += "/"
		}
		if err != nil {
			line += " fails"
		}
		got = append(got, line)
	}
	want := "a.jpg a.jpg.bmp, a.png a.png.bmp, b b/, b/c.jpg b/c.bmp, b/labels.txt b/labels.txt, " +
		"closed closed/, closed closed/ fails, empty empty/, empty/deep empty/deep/, z.jpg z.bmp"
	if diff := cmp.Diff(strings.Split(want, ", "), got); diff != "" {
		t.Error(diff)
	}
	n := 0
	for _, err := range members {
		testenv.Must(t, err)
		if n++; n == 4 { // within b
			break
		}
	}
	if n != 4 {
		t.Errorf("went on to %d", n)
	}
}
