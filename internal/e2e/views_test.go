package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/internal/testmount"
	"github.com/pipefs/pipefs/store"
)

var cacheModes = []string{"page", "daemon"}

// TestViews compares every view with the dataset: bytes of the originals,
// pixels and scans by Pillow, sizes by every way of reading. TestJPEG has other
// readers look at scans.
func TestViews(t *testing.T) {
	t.Parallel()
	sets := map[string]func(t *testing.T, mode string) string{
		"generated": func(t *testing.T, _ string) string { return testmount.Generate(t, "-samples", "24", "-png-every", "4") },
		"photographs": func(t *testing.T, mode string) string {
			tree := filepath.Join(t.TempDir(), "tree")
			if mode == "page" || soak() {
				link(t, tree, "kodak", shared(t, "kodak"))
				link(t, tree, "bsds", shared(t, "bsds"))
			} else { // what a picture is does not depend on who caches it
				linkSome(t, tree, "kodak", shared(t, "kodak"), 5)
				linkSome(t, tree, "bsds", shared(t, "bsds"), 5)
			}
			return tree
		},
	}
	for name, set := range sets {
		for _, mode := range cacheModes {
			t.Run(name+"/"+mode, func(t *testing.T) {
				dataset := set(t, mode)
				env := testmount.Home(t)
				mnt := testmount.Mount(t, env, dataset, "--cache", mode)
				if diff := cmp.Diff(hashes(t, dataset), hashes(t, filepath.Join(mnt, "original"))); diff != "" {
					t.Errorf("original (-dataset +mount):\n%s", diff)
				}
				t.Log(python(t, "testdata/check_views.py", dataset, mnt))
			})
		}
	}
}

// TestLoader has loaders read the views of the README. By itself that is torchvision's
// ImageFolder; `make loaders` installs others, and names them in PIPEFS_LOADERS.
func TestLoader(t *testing.T) {
	t.Parallel()
	const samples = 36
	dataset := mixedDataset(t, samples)
	env := testmount.Home(t)
	dir := filepath.Join(t.TempDir(), "store")
	testmount.Command(t, env, "pack", dataset, dir)
	testmount.Command(t, env, "materialize", dir, "bmp", "--fraction", "0.5")
	testenv.Must(t, store.WriteAuto(dir, store.Auto{View: "bmp", Share: 0.5}))
	packed := testmount.Mount(t, env, dir, "--mix-format", "stored-bmp")
	loaders := strings.Fields(os.Getenv("PIPEFS_LOADERS"))
	if len(loaders) == 0 {
		loaders = []string{"ImageFolder"}
	}
	t.Log("\n" + python(t, "testdata/check_loaders.py", append([]string{dataset, packed}, loaders...)...))

	mnt := testmount.Mount(t, env, dataset)
	for _, view := range []string{"bmp", "npy", "scan5", "resize256-bmp", "resize256-npy"} {
		out := python(t, "../../bench/loader/imagefolder.py", "--workers", "2", filepath.Join(mnt, view, "images"))
		var row struct{ Images, Files, Bytes int }
		if err := json.Unmarshal([]byte(lastLine(out)), &row); err != nil {
			t.Fatalf("%s: %v", out, err)
		}
		if row.Images != samples || row.Files != samples || row.Bytes == 0 {
			t.Errorf("%s: %+v", view, row)
		}
	}
}

// mixedDataset is a dataset of JPEG files, spelt in two ways, and PNG files, in classes
// below images, with the box of each below labels.
func mixedDataset(t *testing.T, samples int) string {
	t.Helper()
	root := t.TempDir()
	images := filepath.Join(root, "images")
	testenv.Must(t, os.Rename(testmount.Generate(t, "-samples", fmt.Sprint(samples), "-width", "200", "-height", "150", "-png-every", "3"), images))
	for i, name := range samplesOf(t, images) {
		write(t, root, []byte("0 0.5 0.5 0.5 0.5\n"), "labels/"+strings.TrimSuffix(name, filepath.Ext(name))+".txt")
		if stem, jpeg := strings.CutSuffix(name, ".jpg"); jpeg && i%2 == 0 {
			testenv.Must(t, os.Rename(filepath.Join(images, name), filepath.Join(images, stem+".JPEG")))
		}
	}
	return root
}

func lastLine(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return lines[len(lines)-1]
}
