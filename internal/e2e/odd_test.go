package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pipefs/pipefs/internal/control"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/internal/testmount"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/codecs"
)

// kind is where oddTree has a file of testdata/pictures: no two share a stem there.
func kind(name string) string {
	return "kinds/" + strings.ReplaceAll(name, ".", "_") + filepath.Ext(name)
}

// oddTree makes a tree of masks, odd names, links and broken files.
func oddTree(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "odd")
	for _, path := range testenv.Pictures(t, "*") {
		name := filepath.Base(path)
		write(t, dir, testenv.Picture(t, name), kind(name))
	}
	photo, png := testenv.Picture(t, "optimised.jpg"), testenv.Picture(t, "rgb.png")
	write(t, dir, photo, "same_stem/a.jpg", "names/mit Leerzeichen und ünïcödé 图像.jpg", "names/"+strings.Repeat("x", 251)+".jpg",
		"names/UPPER.JPG", "names/two.dots.jpeg", "names/-dash.jpg")
	write(t, dir, png, "same_stem/a.png")
	write(t, dir, testenv.Picture(t, "rgb.bmp"), "same_stem/a.bmp")
	write(t, dir, []byte(`{"a": 1}`), "names/labels.json")
	write(t, dir, []byte("nothing to see\n"), "names/notes.txt")
	write(t, dir, nil, "broken/empty.jpg")
	write(t, dir, photo[:len(photo)/2], "broken/half.jpg")
	write(t, dir, png[:300], "broken/half.png")
	write(t, dir, []byte(strings.Repeat("noise", 100)), "broken/noise.jpg")
	for _, empty := range []string{"empty/emptier", "links"} {
		testenv.Must(t, os.MkdirAll(filepath.Join(dir, empty), 0o755))
	}
	for link, to := range map[string]string{"inside.jpg": "../names/UPPER.JPG", "directory": "../kinds", "cycle": ".."} {
		testenv.Must(t, os.Symlink(to, filepath.Join(dir, "links", link)))
	}
	outside := filepath.Join(t.TempDir(), "outside.json")
	testenv.Must(t, os.WriteFile(outside, []byte("{}"), 0o644))
	testenv.Must(t, os.Symlink(outside, filepath.Join(dir, "links", "outside.json")))
	return dir
}

// TestMasksAreNeverHarmed reads pictures and masks of every kind from every kind of view,
// over the dataset and over a store of it. The bytes are those of testdata/views.txt.
func TestMasksAreNeverHarmed(t *testing.T) {
	t.Parallel()
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
			registry := codecs.Default(transcode.Limits{})
			for file, want := range testenv.Views(t) {
				b, err := os.ReadFile(filepath.Join(mnt, file[0], kind(file[1])))
				if err == nil && testenv.Digest(b) == want {
					continue
				}
				// What may be a mask is refused, or a picture by its pixels.
				src := testenv.Picture(t, file[1])
				info, headerErr := registry.ProbeBytes(src)
				testenv.Must(t, headerErr)
				view, viewErr := registry.Parse(file[0])
				testenv.Must(t, viewErr)
				if !registry.Plan(view, info, transcode.Auto).Spared() {
					t.Errorf("%s of %s: %s, %v; want %s", file[0], file[1], testenv.Digest(b), err, want)
				} else if !errors.Is(err, syscall.EPERM) {
					made, madeErr := registry.Plan(view, info, transcode.Image).Run(t.Context(), src)
					if err != nil || madeErr != nil || !bytes.Equal(b, made) || !strings.HasPrefix(file[1], "grey") {
						t.Errorf("%s of %s, which may be a mask: %s, %v", file[0], file[1], testenv.Digest(b), err)
					}
				}
			}
		})
	}
}

// TestOddNames looks at how names, links and broken files appear.
func TestOddNames(t *testing.T) {
	t.Parallel()
	dataset := oddTree(t)
	env := testmount.Home(t)
	mnt := testmount.Mount(t, env, dataset)
	list := func(dir string) []string {
		t.Helper()
		entries, err := os.ReadDir(filepath.Join(mnt, dir))
		testenv.Must(t, err)
		names := make([]string, len(entries))
		for i, e := range entries {
			names[i] = e.Name()
		}
		return names
	}
	inode := func(name string) uint64 {
		t.Helper()
		st, err := os.Stat(filepath.Join(mnt, name))
		testenv.Must(t, err)
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
		testenv.Must(t, err)
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

// TestUnreadableFile packs, as a user without rights, a dataset with a file that
// this user may not read: it is named, and all others are packed.
func TestUnreadableFile(t *testing.T) {
	t.Parallel()
	home, err := os.MkdirTemp("", "pipefs-user-")
	testenv.Must(t, err)
	t.Cleanup(func() { os.RemoveAll(home) })
	// Somebody else has to be able to run the binary and to read the dataset.
	dataset, binary := filepath.Join(home, "dataset"), filepath.Join(home, "pipefs")
	generated := testmount.Generate(t, "-samples", "8", "-classes", "1", "-width", "80", "-height", "60", "-png-every", "0")
	testenv.Must(t, os.CopyFS(dataset, os.DirFS(generated)))
	program, err := os.ReadFile(testmount.Binary(t))
	testenv.Must(t, err)
	testenv.Must(t, os.WriteFile(binary, program, 0o755))
	closed := filepath.Join(dataset, "class00", "000003_0.jpg")
	testenv.Must(t, os.Chmod(closed, 0))
	const nobody = 65534
	attr := &syscall.SysProcAttr{}
	if os.Getuid() == 0 {
		attr.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
		testenv.Must(t, os.Chown(home, nobody, nobody))
	}
	run := func(args ...string) string {
		t.Helper()
		cmd := exec.Command(binary, args...)
		cmd.SysProcAttr, cmd.Dir = attr, home
		cmd.Env = append(os.Environ(), "HOME="+home, "GORACE=atexit_sleep_ms=0")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Logf("%v", err)
		}
		return string(out)
	}
	store := filepath.Join(home, "store")
	if out := run("pack", dataset, store); !strings.Contains(out, "000003_0.jpg") {
		t.Errorf("pack does not name the file that it left out:\n%s", out)
	}
	mnt := testmount.Mount(t, testmount.Home(t), store)
	entries, err := os.ReadDir(filepath.Join(mnt, "bmp", "class00"))
	if err != nil || len(entries) != 7 {
		t.Fatalf("%d of 7 readable samples are there, %v", len(entries), err)
	}
	for _, e := range entries {
		if data, err := os.ReadFile(filepath.Join(mnt, "bmp", "class00", e.Name())); err != nil || len(data) == 0 {
			t.Errorf("%s: %d bytes, %v", e.Name(), len(data), err)
		}
	}
}

// TestDatasetDeleted: a mount says that its dataset was deleted, and shows the one that takes its
// place.
func TestDatasetDeleted(t *testing.T) {
	t.Parallel()
	for _, how := range [][]string{nil, {"--immutable"}, {"--cache", "daemon"}, {"--supervise"}} {
		t.Run(strings.Join(how, " "), func(t *testing.T) {
			t.Parallel()
			dataset := filepath.Join(t.TempDir(), "dataset")
			make := func(picture string, names ...string) {
				for _, name := range names {
					write(t, dataset, testenv.Picture(t, picture), name)
				}
			}
			make("optimised.jpg", "a/1.jpg", "a/2.jpg", "b/1.jpg")
			env := testmount.Home(t)
			mnt := testmount.Mount(t, env, dataset, how...)
			hashes(t, filepath.Join(mnt, "bmp")) // the kernel knows all names
			before := hashes(t, filepath.Join(mnt, "original"))
			stats := func() control.Stats { return statsOf(t, mnt) }
			if lost := stats().Lost; lost != "" {
				t.Errorf("before: %s", lost)
			}
			log, err := os.ReadFile(stats().Log)
			testenv.Must(t, err)
			if strings.Contains(string(log), "gone") {
				t.Errorf("%s", log)
			}

			testenv.Must(t, os.RemoveAll(dataset))
			said := "the dataset " + dataset + " was deleted"
			testenv.Eventually(t, func() error {
				if s := stats(); !strings.HasPrefix(s.Lost, said) {
					return fmt.Errorf("stats: %q", s.Lost)
				}
				return nil
			})
			for _, out := range []string{testmount.Command(t, env, "stats", mnt), testmount.Command(t, env, "mounts")} {
				if !strings.Contains(strings.Join(strings.Fields(out), " "), said) {
					t.Errorf("not said: %s", out)
				}
			}

			make("progressive.jpg", "a/1.jpg", "a/3.jpg", "c/d/1.jpg")
			testenv.Eventually(t, func() error {
				if s := stats(); s.Lost != "" {
					return fmt.Errorf("stats: %q", s.Lost)
				}
				return nil
			})
			want := hashes(t, dataset)
			if cmp.Equal(before, want) {
				t.Fatal("the dataset is the same")
			}
			testenv.Eventually(t, func() error {
				if diff := cmp.Diff(want, hashes(t, filepath.Join(mnt, "original"))); diff != "" {
					return fmt.Errorf("-dataset +mount: %s", diff)
				}
				return nil
			})
			if n := len(hashes(t, filepath.Join(mnt, "bmp"))); n != 3 {
				t.Errorf("%d files in bmp", n)
			}
			// Changes are seen as before.
			make("optimised.jpg", "c/d/2.jpg")
			if len(how) == 0 || how[0] != "--immutable" {
				testenv.Eventually(t, func() error { _, err := os.Stat(filepath.Join(mnt, "bmp/c/d/2.bmp")); return err })
			}
			log, err = os.ReadFile(stats().Log)
			testenv.Must(t, err)
			for _, line := range []string{"what the mount shows is gone", "is there again"} {
				if n := strings.Count(string(log), line); n != 1 {
					t.Errorf("%d lines of %q in the log", n, line)
				}
			}
		})
	}
}
