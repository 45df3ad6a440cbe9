package source

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pipefs/pipefs/internal/testenv"
)

func TestClasses(t *testing.T) {
	for _, c := range []struct {
		name, files, list string
		want              string // paths in order; directories end with a slash
		notes             []string
		err               string
	}{
		{"ILSVRC", "v_1.JPEG v_2.JPEG v_3.JPEG", "v_1 2\n\nv_2 0\nv_3 10\n",
			"0000/ 0000/v_2.JPEG 0001/ 0002/ 0002/v_1.JPEG 0003/ 0004/ 0005/ 0006/ 0007/ 0008/ 0009/ 0010/ 0010/v_3.JPEG", nil, ""},
		{"CSV", "1.jpg 2.jpg 2.txt 3.jpg", "id,label\n1.jpg,\"a, b/c\"\r\n2,d.e,more\n3,..\n", "__/ __/3.jpg a, b_c/ a, b_c/1.jpg d.e/ d.e/2.jpg d.e/2.txt", nil, ""},
		{"Kaggle", "v_1.JPEG", "ImageId,PredictionString\nv_1,n03995372 85 1 499 272\n", "n03995372/ n03995372/v_1.JPEG", nil, ""},
		{"splits", "train/1.jpg train/x/2.jpg val/3.jpg", "1,b\nx/../train/x/2,a\nval/3.jpg,a\n4,a\n",
			"train/ train/a/ train/b/ train/b/1.jpg train/x/ train/x/a/ train/x/a/2.jpg train/x/b/ val/ val/a/ val/a/3.jpg val/b/", []string{"1 of 4 names of LIST are not in the dataset, such as 4"}, ""},
		{"no label", "1.jpg 2.jpg", "1.jpg -1\n2.jpg 0\n", "0000/ 0000/2.jpg 1.jpg", []string{"1 files have no class in LIST and stay where they are, such as 1.jpg"}, ""},
		{"a large number", "1.jpg 2.jpg", "1.jpg 123456789012\n2.jpg 0\n", "000000000000/ 000000000000/2.jpg 123456789012/ 123456789012/1.jpg", nil, ""},
		{"the most classes", "1.jpg 2.jpg", "1.jpg 100000\n2.jpg 0\n", "000000/ 000000/2.jpg 100000/ 100000/1.jpg", nil, ""},
		{"left", "1.jpg 2.jpg 3.jpg 4.jpg 5.jpg", "1.jpg b\n9.jpg a\n8.jpg a\n", "2.jpg 3.jpg 4.jpg 5.jpg a/ b/ b/1.jpg",
			[]string{"2 of 3 names of LIST are not in the dataset, such as 8.jpg, 9.jpg", "4 files have no class in LIST and stay where they are, such as 2.jpg, 3.jpg, 4.jpg"}, ""},
		{"shown twice", "x/1.jpg x/a/1.jpg", "x/1.jpg a\n", "", nil, "x/1.jpg would be shown as x/a/1.jpg, and the dataset has a file there"},
		{"a line of a name", "1.jpg 2.jpg", "1.jpg,a\n2.jpg\n", "", nil, "line 2 has no name and class"},
		{"a directory that is there", "a/1.jpg 2.jpg", "2.jpg,a\n", "a/ a/1.jpg a/2.jpg", []string{"1 files have no class in LIST and stay where they are, such as a/1.jpg"}, ""},
		{"taken", "a/1.jpg 1.jpg", "1.jpg a\n", "", nil, "1.jpg is in . and in a"},
		{"a file in the way", "a 1.jpg", "1.jpg a\n", "", nil, "directory of a class"},
		{"two classes", "1.jpg", "1.jpg a\n1.jpg b\n", "", nil, "line 2: 1.jpg has the class b, and had a before"},
		{"no class", "1.jpg", "1.jpg\n", "", nil, "line 1 has no name and class"},
		{"no class in a row", "1.jpg", "1.jpg,a\n2.jpg,\n", "", nil, "line 2 has no name and class"},
		{"a quote", "1.jpg", "1.jpg,a\n2\".jpg,b\n", "", nil, "parse error on line 2"},
		{"nothing", "1.jpg", "2.jpg,a\n", "", nil, "none of its 1 names is in"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir, list := t.TempDir(), filepath.Join(t.TempDir(), "list")
			for _, file := range strings.Fields(c.files) {
				testenv.Must(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(file)), 0o755))
				testenv.Must(t, os.WriteFile(filepath.Join(dir, file), []byte(file), 0o644))
			}
			testenv.Must(t, os.WriteFile(list, []byte(c.list), 0o644))
			under := open(t, dir, Options{})
			d, err := WithClasses(under, list)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("%v, want %s", err, c.err)
				}
				return
			}
			testenv.Must(t, err)
			if c.want != "" {
				if diff := cmp.Diff(strings.ReplaceAll(c.want, "a, b", "a,~b"), strings.ReplaceAll(strings.Join(classTree(t, d, "", map[uint64]bool{}), " "), "a, b", "a,~b")); diff != "" {
					t.Error(diff)
				}
			}
			for i := range d.Notes {
				d.Notes[i] = strings.ReplaceAll(d.Notes[i], list, "LIST")
			}
			if diff := cmp.Diff(c.notes, d.Notes); diff != "" && c.want != "" {
				t.Error(diff)
			}
		})
	}
}

// classTree returns the paths of a dataset, and reads its files, which hold their first paths.
func classTree(t *testing.T, d *Classes, dir string, seen map[uint64]bool) (paths []string) {
	entries, err := d.List(dir)
	testenv.Must(t, err)
	for _, e := range entries {
		name := path.Join(dir, e.Name)
		a, err := d.Stat(name)
		testenv.Must(t, err)
		if fresh, err := d.Fresh(name); fresh != a || err != nil || seen[a.ID] {
			t.Errorf("%s: %+v and %+v, %v", name, a, fresh, err)
		}
		seen[a.ID] = true
		if a.Mode.IsDir() != e.Dir {
			t.Errorf("%s: listed as a directory: %v; its mode is %v", name, e.Dir, a.Mode)
		}
		if e.Dir {
			paths = append(append(paths, name+"/"), classTree(t, d, name, seen)...)
			continue
		}
		paths = append(paths, name)
		f, err := d.OpenAs(name, a.Identity)
		testenv.Must(t, err)
		data, err := f.ReadAll()
		testenv.Must(t, err)
		if string(data) != d.shown[name] && string(data) != name {
			t.Errorf("%s holds %s", name, data)
		}
		testenv.Must(t, f.Close())
	}
	none := path.Join(dir, "none")
	_, statErr := d.Stat(none)
	if got, err := d.List(none); !errors.Is(statErr, fs.ErrNotExist) || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s is not there: %v; its members are %v, %v", none, statErr, got, err)
	}
	for file := range d.moved {
		_, err := d.Open(file)
		_, asErr := d.OpenAs(file, Identity{})
		_, statErr := d.Stat(file)
		for _, err := range []error{err, asErr, statErr} {
			if d.shown[file] == "" && !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s is shown twice: %v", file, err)
			}
		}
	}
	return paths
}
