package e2e

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pipefs/pipefs/internal/prepare/pack"
	"github.com/pipefs/pipefs/internal/source"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/internal/testmount"
	"github.com/pipefs/pipefs/store"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/codecs"
	"github.com/pipefs/pipefs/transcode/l3"
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

// TestContinueL3 wants a store that has nothing but L3 of another mode than the usual one to
// be read, and to be continued as it is.
func TestContinueL3(t *testing.T) {
	t.Parallel()
	env := testmount.Home(t)
	pictures := testmount.Generate(t, "-samples", "6", "-png-every", "1")
	old := filepath.Join(t.TempDir(), "st")
	registry := codecs.New(transcode.Limits{}, codecs.Options{L3: l3.Options{Mode: l3.Fast}})
	kinds := registry.Kinds()
	d, err := source.Open(pictures, source.Options{})
	testenv.Must(t, err)
	defer d.Close()
	pack := pack.Dataset{
		Registry: registry, Dir: d, Originals: pack.Drop,
		Represent: kinds[slices.IndexFunc(kinds, func(k *transcode.Kind) bool { return k.Name == "l3" })],
	}
	if report, err := store.Pack(t.Context(), old, pack, pack, store.PackOptions{}); err != nil || report.Failed > 0 {
		t.Fatalf("%+v, %v", report, err)
	}
	same := func() {
		t.Helper()
		want, got := filepath.Join(t.TempDir(), "want"), filepath.Join(t.TempDir(), "got")
		testmount.Command(t, env, "export", pictures, "bmp", want)
		testmount.Command(t, env, "export", old, "bmp", got)
		if diff := cmp.Diff(hashes(t, want), hashes(t, got)); diff != "" {
			t.Errorf("bmp (-dataset +store):\n%s", diff)
		}
		if kept := testmount.Command(t, env, "info", old); !strings.Contains(kept, "l3fast2 ") || strings.Contains(kept, "l3dense") {
			t.Error(kept)
		}
	}
	same()
	more := testmount.Generate(t, "-samples", "2", "-png-every", "1", "-classes", "1", "-width", "99")
	testenv.Must(t, os.CopyFS(filepath.Join(pictures, "more"), os.DirFS(more)))
	out := testmount.Command(t, env, "pack", "--represent", "l3", "--originals", "drop", pictures, old)
	if !strings.HasPrefix(out, "packed 3 files, skipped 7 unchanged") { // each has its list of labels
		t.Error(out)
	}
	same()
}
