package e2e

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/internal/testmount"
)

// TestJPEG packs JPEG files of every kind, and photographs, and takes the dataset
// away: the store gives every file back, and every reader that is here opens every
// view of it. One store has all fidelities and one has two.
func TestJPEG(t *testing.T) {
	t.Parallel()
	sets := map[string]func(t *testing.T) string{
		"kinds": func(t *testing.T) string {
			tree := filepath.Join(t.TempDir(), "tree")
			for _, path := range testenv.Pictures(t, "*.jpg") {
				if name := filepath.Base(path); name != "q1.jpg" { // libjpeg warns of its tables
					write(t, tree, testenv.Picture(t, name), name)
				}
			}
			return tree
		},
		"photographs": func(t *testing.T) string {
			tree, n := filepath.Join(t.TempDir(), "tree"), 5
			if testenv.Soak() {
				n = 1
			}
			linkSome(t, tree, "bsds", shared(t, "bsds"), n)
			return tree
		},
	}
	const every = "1,2,3,4,5,6,7,8,9,10"
	for name, set := range sets {
		for _, scans := range []string{every, "1,10"} {
			if name == "photographs" && scans != every {
				continue // what a store of few scans lacks does not depend on the picture
			}
			t.Run(name+"/scans="+scans, func(t *testing.T) {
				dataset := set(t)
				want := hashes(t, dataset)
				env := testmount.Home(t)
				store := filepath.Join(t.TempDir(), "store")
				testmount.Command(t, env, "pack", "--scans", scans, dataset, store)
				if o := infoOf(t, env, store).Originals; o.Rebuilt.Samples != len(want) || o.Kept.Samples+o.Dropped.Samples != 0 {
					t.Errorf("of %d files, %+v", len(want), o)
				}
				away := filepath.Join(t.TempDir(), "away")
				testenv.Must(t, os.Rename(dataset, away))
				mnt := testmount.Mount(t, env, store)
				if diff := cmp.Diff(want, hashes(t, filepath.Join(mnt, "original"))); diff != "" {
					t.Errorf("original (-dataset +store):\n%s", diff)
				}
				for name := range want {
					if scans != every {
						break // jpegtran cuts a JPEG in one way
					}
					stream, err := exec.Command("jpegtran", "-copy", "all", "-progressive", filepath.Join(away, name)).Output()
					testenv.Must(t, err)
					got, err := os.ReadFile(filepath.Join(mnt, "scan10", name))
					if err != nil || !bytes.Equal(got, stream) {
						t.Errorf("%s: %d bytes differ from jpegtran's %d, %v", name, len(got), len(stream), err)
					}
				}
				out := python(t, "testdata/check_readers.py", away, mnt)
				t.Log(out)
				for _, reader := range []string{"Pillow", "djpeg", "torchvision"} {
					if !strings.Contains(out, reader) || strings.Contains(out, "not here: "+reader) {
						t.Errorf("%s was not asked: install libjpeg-turbo-progs and python3-torchvision", reader)
					}
				}
			})
		}
	}
}
