package walk

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/pipefs/pipefs/internal/pictures"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/internal/testmount"
)

// versions is how many versions there are of each file that is edited.
const versions = 3

// edited are the files of the dataset that are edited. All that have one extension have the same
// bytes in the same version, so that one can be renamed to another.
var edited = []string{"live/0.jpg", "live/1.jpg", "live/2.jpg", "live/3.jpg", "live/large.png", "live/labels.csv"}

const (
	draw       = ".draw/7/0/rrc32-hflip-npy"
	batches    = ".epoch/7/0/1/0/4/rrc32-npy/cats"
	randomView = "rrc48-npy" // each open is another draw
)

// views are exported for each version.
var views = []string{"original", "scan2", "scan5", "bmp", "bmp-own", "png", "rgb-resize32-crop32-npy", draw}

// fidelities are those that MNT/current has.
var fidelities = []int{2, 5}

// expectedFiles are the files that a path of the mount may lead to: that of version v is the v-th,
// and further ones follow where the path does not say which view it is of.
func expectedFiles(root, path string) (files []string) {
	view, rest, _ := strings.Cut(path, "/")
	var of []string
	switch view {
	case "current":
		for _, k := range fidelities {
			of = append(of, fmt.Sprint("scan", k))
		}
	case "mix":
		of = []string{"bmp-own"}
	case randomView:
		return nil
	default:
		of, rest = []string{""}, path
	}
	for _, view := range of {
		for v := range versions {
			files = append(files, filepath.Join(root, fmt.Sprint(v), view, rest))
		}
	}
	return files
}

func drawn(path string) bool { return strings.HasPrefix(path, randomView+"/") }

// source is the file of the dataset that a file of the mount shows; "" is none that is edited.
func source(path string) string {
	for _, name := range edited {
		stem := strings.TrimSuffix(name, filepath.Ext(name))
		if strings.HasSuffix(strings.TrimSuffix(path, filepath.Ext(path)), "/"+stem) {
			return name
		}
	}
	return ""
}

// expected is what the mounts of all walks should show: a directory for each version, and the
// dataset of each version.
var expected = struct {
	once  sync.Once
	dir   string
	paths []string // of files, as a mount has them
}{}

// expectedTree makes it, once.
func expectedTree(t *testing.T) (dir string, paths []string) {
	t.Helper()
	expected.once.Do(func() {
		var err error
		expected.dir, err = os.MkdirTemp("", "walk-expected-")
		testenv.Must(t, err)
		env := testmount.Home(t)
		for v := range versions {
			dataset := originals(v)
			for i := range 9 {
				name := filepath.Join(dataset, []string{"cats", "dogs"}[i%2], fmt.Sprintf("%d.jpg", i))
				testenv.Must(t, os.MkdirAll(filepath.Dir(name), 0o755))
				testenv.Must(t, pictures.Write(name, pictures.Photo(160, 120, uint64(i))))
				if i%2 == 0 {
					testenv.Must(t, os.Chmod(name, 0o640)) // so that batches of cats may not be read by all
				}
			}
			testenv.Must(t, os.MkdirAll(filepath.Join(dataset, "live"), 0o755))
			for _, name := range edited {
				name = filepath.Join(dataset, name)
				switch filepath.Ext(name) {
				case ".csv":
					testenv.Must(t, os.WriteFile(name, []byte(strings.Repeat(fmt.Sprintln("label", v), 500*(v+1))), 0o644))
				case ".png":
					testenv.Must(t, pictures.Write(name, pictures.Photo(700, 500+50*v, uint64(60+v))))
				default:
					testenv.Must(t, pictures.Write(name, pictures.Photo(160, 120+8*(v/2), uint64(50+v)))) // two of one shape
				}
			}
			for _, size := range []int{0, 1, 4095, 4096, 4097, 131072, 131073, 3<<20 + 17} {
				name := filepath.Join(dataset, "sizes", fmt.Sprint(size, ".bin"))
				testenv.Must(t, os.MkdirAll(filepath.Dir(name), 0o755))
				testenv.Must(t, os.WriteFile(name, []byte(strings.Repeat("some bytes, of which there are as many as the name says; ", size/50+1)[:size]), 0o644))
			}
			for _, view := range views {
				testmount.Command(t, env, "export", dataset, view, filepath.Join(expected.dir, fmt.Sprint(v), view))
			}
		}
		mnt, unmount := testmount.MountOnce(t, env, originals(0))
		defer unmount()
		for v := range versions {
			to := filepath.Join(expected.dir, fmt.Sprint(v), batches)
			testenv.Must(t, os.MkdirAll(filepath.Dir(to), 0o755))
			testenv.Must(t, os.CopyFS(to, os.DirFS(filepath.Join(mnt, batches))))
			files, err := os.ReadDir(to)
			testenv.Must(t, err)
			for _, f := range files { // who may not read a sample may not read its batch
				if f.Name() != "index.json" {
					testenv.Must(t, os.Chmod(filepath.Join(to, f.Name()), 0o440))
				}
			}
		}
		for _, view := range append(views, batches) {
			root := filepath.Join(expected.dir, "0")
			testenv.Must(t, filepath.WalkDir(filepath.Join(root, view), func(name string, e os.DirEntry, err error) error {
				few := strings.Contains(name, "/sizes/") && view != "original" && view != "bmp" // all views show the same
				if err == nil && !e.IsDir() && !few {
					expected.paths = append(expected.paths, strings.TrimPrefix(name, root+"/"))
				}
				return err
			}))
		}
		for _, path := range expected.paths {
			for from, to := range map[string]string{"scan5": "current", "bmp-own": "mix", draw: randomView} {
				if rest, ok := strings.CutPrefix(path, from+"/"); ok {
					expected.paths = append(expected.paths, to+"/"+rest)
				}
			}
		}
	})
	if len(expected.paths) == 0 {
		t.Fatal("there is nothing to walk")
	}
	return expected.dir, expected.paths
}

// originals is a dataset that has the same version of all files.
func originals(version int) string {
	return filepath.Join(expected.dir, fmt.Sprint(version), "dataset")
}
