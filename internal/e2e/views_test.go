package e2e

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pipefs/pipefs/internal/testmount"
)

var cacheModes = []string{"page", "daemon"}

// TestViews compares every view with the dataset: bytes of the originals,
// pixels and scans by Pillow, sizes by every way of reading. TestJPEG has other
// readers look at scans.
func TestViews(t *testing.T) {
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

// TestStoredStreamsAreJpegtrans packs real photographs: what the store holds is
// what jpegtran writes, byte for byte.
func TestStoredStreamsAreJpegtrans(t *testing.T) {
	tree := filepath.Join(t.TempDir(), "tree")
	link(t, tree, "bsds", shared(t, "bsds"))
	env := testmount.Home(t)
	store := filepath.Join(t.TempDir(), "store")
	testmount.Command(t, env, "pack", "--originals", "drop", tree, store)
	// The store stands alone: the dataset is gone.
	files, err := filepath.Glob(filepath.Join(tree, "bsds", "*.jpg"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	want := map[string][]byte{}
	for _, name := range files {
		out, err := exec.Command("jpegtran", "-copy", "all", "-progressive", name).Output()
		if err != nil {
			t.Fatal(err)
		}
		want[filepath.Base(name)] = out
	}
	if err := os.RemoveAll(tree); err != nil {
		t.Fatal(err)
	}
	mnt := testmount.Mount(t, env, store)
	for name, stream := range want {
		got, err := os.ReadFile(filepath.Join(mnt, "scan10", "bsds", name))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, stream) {
			t.Errorf("%s: %d bytes differ from jpegtran's %d", name, len(got), len(stream))
		}
	}
	if _, err := os.ReadFile(filepath.Join(mnt, "original", "bsds", filepath.Base(files[0]))); err == nil {
		t.Error("an original that was dropped could be read")
	}
}

// TestLoader reads an epoch with torchvision from the views of the README.
func TestLoader(t *testing.T) {
	dataset := testmount.Generate(t, "-samples", "32")
	env := testmount.Home(t)
	store := filepath.Join(t.TempDir(), "store")
	testmount.Command(t, env, "pack", dataset, store)
	testmount.Command(t, env, "materialize", store, "bmp", "--fraction", "0.5")
	mnt := testmount.Mount(t, env, dataset)
	packed := testmount.Mount(t, env, store, "--mix-format", "stored-bmp")
	for _, view := range []string{"bmp", "npy", "scan5", "resize256-bmp", "resize256-npy", "bmp-own", "mix"} {
		if view == "mix" { // half pixels, half files for the loader to decode
			mnt = packed
		}
		out := python(t, "../../bench/loader/imagefolder.py", "--workers", "2", filepath.Join(mnt, view))
		var row struct{ Images, Files, Bytes int }
		if err := json.Unmarshal([]byte(lastLine(out)), &row); err != nil {
			t.Fatalf("%s: %v", out, err)
		}
		if row.Images != 32 || row.Files != 32 || row.Bytes == 0 {
			t.Errorf("%s: %+v", view, row)
		}
	}
}

func lastLine(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return lines[len(lines)-1]
}
