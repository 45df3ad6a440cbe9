package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/internal/testmount"
)

// TestEpochViews reads epochs by path, as any program does, from a dataset with either
// cache and from a store, with and without pixels in it: the bytes are those of the files below .draw, or of the view.
func TestEpochViews(t *testing.T) {
	t.Parallel()
	env, dataset, store := packed(t, "-samples", "24", "-classes", "3")
	mounts := []string{testmount.Mount(t, env, dataset), testmount.Mount(t, env, dataset, "--cache", "daemon", "--workers", "1"), testmount.Mount(t, env, store)}
	for _, kept := range []string{"bmp", "resize80-crop64-npy"} {
		testmount.Command(t, env, "materialize", store, kept)
		mounts = append(mounts, testmount.Mount(t, env, store))
	}
	epoch := func(mnt, path string) string { return filepath.Join(mnt, ".epoch", path) }
	read := func(path string) []byte {
		data, err := os.ReadFile(path)
		testenv.Must(t, err)
		return data
	}
	const size = 64 * 64 * 3
	for view, below := range map[string]string{"rrc64-hflip-npy": ".draw/7/3/rrc64-hflip-npy", "resize80-crop64-npy": "resize80-crop64-npy"} {
		var first [][]byte
		for i, mnt := range mounts {
			for k := range 2 {
				dir := epoch(mnt, "7/3/2/1/7/"+view)
				batch := fmt.Sprintf("%06d", k)
				got := read(filepath.Join(dir, batch+".npy"))
				if i == 0 {
					first = append(first, got)
				} else if !bytes.Equal(got, first[k]) {
					t.Errorf("mount %d has other bytes in batch %d of %s", i, k, view)
				}
				paths := strings.Fields(string(read(filepath.Join(dir, batch+".paths.txt"))))
				if len(got) != 128+len(paths)*size || len(paths) != 7-2*k {
					t.Fatalf("%d bytes of %d samples", len(got), len(paths))
				}
				for j, name := range paths {
					alone := read(filepath.Join(mnt, below, strings.TrimSuffix(name, filepath.Ext(name))+".npy"))
					if !bytes.Equal(alone[128:], got[128+j*size:][:size]) {
						t.Errorf("mount %d, %s: %s has other bytes", i, view, name)
					}
				}
			}
		}
	}
	mnt := mounts[0]
	dir := epoch(mnt, "7/3/2/1/7/rrc64-hflip-npy")
	ino := func(path string) uint64 {
		var st unix.Stat_t
		testenv.Must(t, unix.Stat(path, &st))
		return st.Ino
	}
	if a := ino(dir + "/000001.npy"); a != ino(dir+"/000001.npy") || a == ino(epoch(mnt, "7/3/2/0/7/rrc64-hflip-npy/000001.npy")) {
		t.Error("a file is two, or two are one")
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 7 || entries[6].Name() != "index.json" {
		t.Errorf("%v, %v", entries, err)
	}
	if names, err := os.ReadDir(epoch(mnt, "7/3")); err != nil || len(names) != 0 {
		t.Errorf("%v, %v", names, err)
	}
	for _, bad := range []string{"x", "7/3/2/2", "7/3/2/1/7/rrc64", "7/3/2/1/7/nothing", "7/3/2/1/7/rrc64-hflip-npy/000002.npy", "7/3/2/1/7/rrc64-hflip-npy/nowhere", "7/3/2/1/1000000/rrc224-npy", "7/3/2/1/7/rrc64-hflip-npy/index.json/x"} {
		if _, err := os.Stat(epoch(mnt, bad)); !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ENOTDIR) {
			t.Errorf("%s: %v", bad, err)
		}
	}
	// Past the page cache, and any part of it
	f, err := os.OpenFile(dir+"/000000.npy", os.O_RDONLY|unix.O_DIRECT, 0)
	testenv.Must(t, err)
	defer f.Close()
	want, got := read(dir+"/000000.npy"), make([]byte, 1000)
	if n, err := f.ReadAt(got, 5000); n != 1000 || err != nil || !bytes.Equal(got, want[5000:6000]) {
		t.Errorf("%d bytes, %v", n, err)
	}
}

// TestEpochLists reads epochs over lists, of a dataset and of a store, in it or given to the mount.
func TestEpochLists(t *testing.T) {
	t.Parallel()
	env, dataset := testmount.Home(t), testmount.Generate(t, "-samples", "6", "-classes", "2")
	first, err := filepath.Rel(dataset, firstOf(t, filepath.Join(dataset, "class01")))
	testenv.Must(t, err)
	list := filepath.Join(t.TempDir(), "given.csv")
	for file, rows := range map[string]string{filepath.Join(dataset, "labels.csv"): "path,label\n" + first + ",5\n", list: "path\n" + strings.Repeat(first+"\n", 3), filepath.Join(dataset, "bad.csv"): "file,label\n"} {
		testenv.Must(t, os.WriteFile(file, []byte(rows), 0o644))
	}
	store := filepath.Join(t.TempDir(), "store")
	testmount.Command(t, env, "pack", dataset, store)
	for _, source := range []string{dataset, store} {
		log := filepath.Join(t.TempDir(), "log")
		mnt := testmount.Mount(t, env, source, "--list", list, "--log-file", log)
		for name, want := range map[string][]byte{"labels.csv": {5}, "given.csv": {1, 1, 1}} {
			dir := filepath.Join(mnt, ".epoch/7/3/1/0/4/rrc64-npy", name)
			paths, err := os.ReadFile(filepath.Join(dir, "000000.paths.txt"))
			testenv.Must(t, err)
			labels, err := os.ReadFile(filepath.Join(dir, "000000.labels.npy"))
			testenv.Must(t, err)
			pixels, err := os.ReadFile(filepath.Join(dir, "000000.npy"))
			testenv.Must(t, err)
			if string(paths) != strings.Repeat(first+"\n", len(want)) || len(labels) != 128+8*len(want) || len(pixels) != 128+64*64*3*len(want) {
				t.Fatalf("%s: %s, %d bytes of labels, %d of pixels", name, paths, len(labels), len(pixels))
			}
			for i, label := range want {
				if labels[128+8*i] != label {
					t.Errorf("%s: sample %d has the label %d", name, i, labels[128+8*i])
				}
				epoch := "3"
				if i > 0 {
					epoch = fmt.Sprint("3.", i) // a further row is a further draw
				}
				alone, err := os.ReadFile(filepath.Join(mnt, ".draw/7", epoch, "rrc64-npy", strings.TrimSuffix(first, filepath.Ext(first))+".npy"))
				testenv.Must(t, err)
				found := false
				for j := range want {
					found = found || bytes.Equal(alone[128:], pixels[128+64*64*3*j:][:64*64*3])
				}
				if !found {
					t.Errorf("%s: draw %s is not there", name, epoch)
				}
			}
		}
		if _, err := os.Stat(filepath.Join(mnt, ".epoch/7/3/1/0/4/rrc64-npy/bad.csv/index.json")); !errors.Is(err, unix.EINVAL) {
			t.Error(err)
		}
		told, err := os.ReadFile(log)
		testenv.Must(t, err)
		if !strings.Contains(string(told), "bad.csv, line 1: the first line has to name the columns") {
			t.Errorf("%s", told)
		}
	}
}
