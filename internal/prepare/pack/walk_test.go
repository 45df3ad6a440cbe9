package pack

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pipefs/pipefs/internal/source"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/store"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/codecs"
)

// TestWalk: directories that are read ahead and in pages come in the order of their names, whoever
// stops the walk, and with the attributes that Stat returns.
func TestWalk(t *testing.T) {
	root := t.TempDir()
	var want []string
	add := func(name string, dir bool) {
		want = append(want, name)
		if dir {
			testenv.Must(t, os.Mkdir(filepath.Join(root, name), 0o755))
		} else {
			testenv.Must(t, os.WriteFile(filepath.Join(root, name), []byte(name), 0o644))
		}
	}
	want = append(want, "")
	add("a.txt", false)
	add("flat", true)
	for i := range 2*pageFiles + 1 {
		name := fmt.Sprintf("flat/%05d", i)
		if add(name, i%700 == 3); i%700 == 3 {
			add(name+"/in", false)
		}
	}
	add("none", true)
	for i := range 20 {
		add(fmt.Sprintf("x%02d", i), true)
		add(fmt.Sprintf("x%02d/deep", i), true)
		add(fmt.Sprintf("x%02d/deep/1", i), false)
		add(fmt.Sprintf("x%02d/z", i), false)
	}
	testenv.Must(t, os.Symlink("../a.txt", filepath.Join(root, "x19", "zlink")))
	want = append(want, "x19/zlink")

	for _, o := range []source.Options{{}, {NoFollow: true}} {
		dir, err := source.Open(root, o)
		testenv.Must(t, err)
		defer dir.Close()
		d := Dataset{Dir: dir, Registry: codecs.Default(transcode.Limits{})}
		var got []string
		for f, err := range d.Walk(t.Context()) {
			testenv.Must(t, err)
			attr, err := dir.Stat(f.Path)
			testenv.Must(t, err)
			if f != d.sourceFile(f.Path, attr) {
				t.Errorf("%+v, Stat says %+v", f, attr)
			}
			got = append(got, f.Path)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		for _, most := range []int{1, 2, 1000, 1500, len(want) - 1} {
			n := 0
			for _, err := range d.Walk(t.Context()) {
				testenv.Must(t, err)
				if n++; n == most {
					break
				}
			}
			if n != most {
				t.Errorf("%d of %d", n, most)
			}
			ctx, cancel := context.WithCancel(t.Context())
			n = 0
			var last error
			for _, err := range d.Walk(ctx) {
				if n++; n == most {
					cancel()
				}
				last = err
			}
			cancel()
			if !errors.Is(last, context.Canceled) {
				t.Errorf("canceled after %d: %d files, %v", most, n, last)
			}
		}
		members := 0
		if !d.Members(t.Context(), "flat", func(f store.SourceFile, err error) bool {
			members++
			return err == nil && strings.Count(f.Path, "/") == 1
		}) || members != 2*pageFiles+1 {
			t.Errorf("%d members", members)
		}
		for f, err := range (Dataset{Dir: unreadable{dir}, Registry: d.Registry}).Walk(t.Context()) {
			if bad := f.Path == "flat/00010" || f.Path == "x03/deep" && f.Kind == store.Dir && err != nil; (err != nil) != bad {
				t.Errorf("%q: %v", f.Path, err)
			}
			if f.Path == "x03/deep/1" || f.Path == "a.txt" {
				t.Errorf("%s is shown", f.Path)
			}
		}
	}
}

// unreadable is a directory of which some cannot be read, and some is gone since it was listed.
type unreadable struct{ source.Dataset }

func (u unreadable) Stat(name string) (source.Attr, error) {
	switch name {
	case "flat/00010":
		return source.Attr{}, os.ErrPermission
	case "a.txt":
		return source.Attr{}, os.ErrNotExist
	}
	return u.Dataset.Stat(name)
}

func (u unreadable) List(dir string) ([]source.Entry, error) {
	if dir == "x03/deep" {
		return nil, os.ErrPermission
	}
	return u.Dataset.List(dir)
}
