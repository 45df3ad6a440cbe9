package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pipefs/pipefs/internal/control"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/internal/testmount"
)

// TestMasksAreNeverHarmed reads pictures and masks of every kind from every kind of view,
// over the dataset and over a store of it.
func TestMasksAreNeverHarmed(t *testing.T) {
	t.Parallel()
	dataset := t.TempDir()
	for _, path := range testenv.Pictures(t, "*") {
		name := filepath.Base(path)
		content := testenv.Picture(t, name)
		write(t, dataset, content, "kinds/"+strings.ReplaceAll(name, ".", "_")+filepath.Ext(name)) // no two share a stem
		if strings.HasPrefix(name, "rgb.") {
			write(t, dataset, content, "same_stem/"+name)
		}
	}
	write(t, dataset, testenv.Picture(t, "optimised.jpg"), "names/mit Leerzeichen und ünïcödé 图像.jpg", "names/"+strings.Repeat("x", 251)+".jpg",
		"names/UPPER.JPG", "names/two.dots.jpeg", "names/-dash.jpg")
	write(t, dataset, []byte(`{"a": 1}`), "names/labels.json")
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
