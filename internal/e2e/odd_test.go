package e2e

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/pipefs/pipefs/internal/testmount"
)

// oddTree makes a tree of masks, odd names, links and broken files.
func oddTree(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "odd")
	python(t, "testdata/make_odd.py", dir)
	outside := filepath.Join(t.TempDir(), "outside.json")
	if err := os.WriteFile(outside, []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(dir, "links", "outside.json")); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestMasksAreNeverHarmed reads masks of every kind from every kind of view,
// over the dataset and over a store of it.
func TestMasksAreNeverHarmed(t *testing.T) {
	dataset := oddTree(t)
	env := testmount.Home(t)
	store := filepath.Join(t.TempDir(), "store")
	testmount.Command(t, env, "pack", dataset, store)
	views := []string{
		"original", "scan1", "scan5", "scan10", "bmp", "ppm", "npy", "png", "resize16-bmp", "resize16-npy",
		"resize16-jpeg90", "crop8-png", "grey-npy", "upright-png", "scan2-bmp",
	}
	for name, what := range map[string]string{"dataset": dataset, "store": store} {
		t.Run(name, func(t *testing.T) {
			args := []string{}
			if name == "store" {
				args = append(args, "--dataset", dataset)
			}
			mnt := testmount.Mount(t, env, what, args...)
			t.Log(python(t, "testdata/check_odd.py", append([]string{dataset, mnt}, views...)...))
		})
	}
}

// TestOddNames looks at how names, links and broken files appear.
func TestOddNames(t *testing.T) {
	dataset := oddTree(t)
	env := testmount.Home(t)
	mnt := testmount.Mount(t, env, dataset)
	list := func(dir string) []string {
		t.Helper()
		entries, err := os.ReadDir(filepath.Join(mnt, dir))
		if err != nil {
			t.Fatal(err)
		}
		names := make([]string, len(entries))
		for i, e := range entries {
			names[i] = e.Name()
		}
		return names
	}
	inode := func(name string) uint64 {
		t.Helper()
		st, err := os.Stat(filepath.Join(mnt, name))
		if err != nil {
			t.Fatal(err)
		}
		return st.Sys().(*syscall.Stat_t).Ino
	}
	want := []string{"a.bmp", "a.jpg.bmp", "a.png.bmp"}
	if got := list("bmp/same_stem"); !slices.Equal(got, want) {
		t.Errorf("three sources of one stem are listed as %q, want %q", got, want)
	}
	if inode("bmp/same_stem/a.jpg") != inode("bmp/same_stem/a.jpg.bmp") {
		t.Error("the dataset's own name is another inode")
	}
	// A JPEG of 255 bytes has no room for another extension, but .bmp is as long.
	long := strings.Repeat("x", 251)
	for view, name := range map[string]string{"bmp": long + ".bmp", "scan5": long + ".jpg"} {
		if _, err := os.ReadFile(filepath.Join(mnt, view, "names", name)); err != nil {
			t.Error(err)
		}
	}
	if got := list("bmp/empty"); !slices.Equal(got, []string{"emptier"}) {
		t.Errorf("empty directories: %q", got)
	}
	if got := list("original/links"); !slices.Equal(got, []string{"directory", "inside.jpg", "outside.json"}) {
		t.Errorf("links: %q (the cycle is left out)", got)
	}
	if st, err := os.Lstat(filepath.Join(mnt, "original/links/inside.jpg")); err != nil || !st.Mode().IsRegular() {
		t.Errorf("a link appears as %v, %v", st.Mode(), err)
	}
	for _, name := range []string{"empty.jpg", "half.jpg", "noise.jpg", "half.png"} {
		source, err := os.ReadFile(filepath.Join(dataset, "broken", name))
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join(mnt, "original/broken", name))
		if err != nil || string(got) != string(source) {
			t.Errorf("original of broken %s: %v", name, err)
		}
		got, err = os.ReadFile(filepath.Join(mnt, "bmp/broken", name))
		switch {
		case strings.HasPrefix(name, "half"):
			if !errors.Is(err, syscall.EIO) {
				t.Errorf("bmp of broken %s: %v, want EIO", name, err)
			}
		case err != nil || string(got) != string(source): // no picture at all
			t.Errorf("bmp of %s: %v, want the file itself", name, err)
		}
	}
	// Of a dataset, info reads the headers; packing reads everything.
	store := filepath.Join(t.TempDir(), "store")
	testmount.Command(t, env, "pack", dataset, store)
	for what, broken := range map[string][]string{
		dataset: {"empty.jpg", "noise.jpg"}, store: {"empty.jpg", "noise.jpg", "half.jpg"},
	} {
		info := testmount.Command(t, env, "info", what)
		for _, name := range broken {
			if !strings.Contains(info, name) {
				t.Errorf("info does not name %s:\n%s", name, info)
			}
		}
	}
}
