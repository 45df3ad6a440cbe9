package e2e

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/internal/testmount"
)

// TestRandomViews wants a path below .draw to name the same bytes, whoever reads it: many
// processes in no order, another mount with other workers and another cache, and a mount of a
// store.
func TestRandomViews(t *testing.T) {
	t.Parallel()
	env, dataset, store := packed(t, "-samples", "24", "-classes", "3")
	mnt := testmount.Mount(t, env, dataset)
	epoch := func(mnt string, seed, epoch int, view string) string {
		return filepath.Join(mnt, ".draw", fmt.Sprint(seed), fmt.Sprint(epoch), view)
	}
	const view = "rrc64scale20to100-hflip-npy"
	want := hashes(t, epoch(mnt, 7, 0, view))
	if len(want) != 25 { // with labels.json
		t.Fatalf("%d files", len(want))
	}
	same := func(what, dir string) {
		t.Helper()
		if got := hashes(t, dir); !maps.Equal(got, want) {
			t.Errorf("%s: other bytes", what)
		}
	}
	other := func(what, dir string) {
		t.Helper()
		for name, h := range hashes(t, dir) {
			if h == want[name] && strings.HasSuffix(name, ".npy") {
				t.Errorf("%s: %s has the same bytes", what, name)
			}
		}
	}
	other("the next epoch", epoch(mnt, 7, 1, view))
	other("another seed", epoch(mnt, 8, 0, view))
	same("read again after others", epoch(mnt, 7, 0, view))

	second := testmount.Mount(t, env, dataset, "--workers", "1", "--cache", "daemon")
	third := testmount.Mount(t, env, store)
	var readers sync.WaitGroup
	sums := make([]string, 8)
	for i := range 8 {
		readers.Go(func() {
			at := []string{mnt, second, third}[i%3]
			sum := exec.Command("sh", "-c", `cd "$0" && find . -name '*.npy' | sort -R | xargs sha256sum | sort -k2 | sha256sum`, epoch(at, 7, 5, view))
			out, err := sum.CombinedOutput()
			if err != nil {
				t.Errorf("%v\n%s", err, out)
			}
			sums[i] = string(out)
		})
	}
	readers.Wait()
	if slices.Sort(sums); sums[0] != sums[len(sums)-1] {
		t.Error("readers of an epoch got other bytes")
	}
	same("another mount", epoch(second, 7, 0, view))
	same("a store", epoch(third, 7, 0, view))

	// A path that names no epoch: each open draws, with the seed of the mount.
	fourth := testmount.Mount(t, env, dataset, "--seed", "7")
	draws := map[[32]byte]bool{}
	name := "class00/" + filepath.Base(firstOf(t, filepath.Join(mnt, "npy/class00")))
	for n := range 8 {
		data, err := os.ReadFile(filepath.Join(epoch(mnt, 7, n, view), name))
		testenv.Must(t, err)
		draws[sha256.Sum256(data)] = true
	}
	opened := map[[32]byte]bool{}
	for range 3 {
		data, err := os.ReadFile(filepath.Join(fourth, view, name))
		testenv.Must(t, err)
		sum := sha256.Sum256(data)
		if !draws[sum] {
			t.Error("an open is no draw of the first eight epochs")
		}
		opened[sum] = true
	}
	if len(opened) != 3 {
		t.Errorf("three opens gave %d draws", len(opened))
	}

}

// firstOf is the first file of a directory.
func firstOf(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) == 0 {
		t.Fatal(dir, err)
	}
	return files[0]
}

// TestRandomViewsLeaveNoPages: the page cache forgets files of a random view when many others
// were read, and a program that asks for one again gets the same bytes.
func TestRandomViewsLeaveNoPages(t *testing.T) {
	t.Parallel()
	const files = 280 // 256 keep their pages
	dataset := testmount.Generate(t, "-samples", fmt.Sprint(files), "-classes", "1", "-width", "32", "-height", "24", "-png-every", "0")
	env := testmount.Home(t)
	mnt := testmount.Mount(t, env, dataset)
	reads := func() (n int64) {
		t.Helper()
		for _, c := range statsOf(t, mnt).Counters {
			if c.Group == ".draw/…/rrc24-npy" && c.Name == "reads" {
				n = c.Value
			}
		}
		return n
	}
	names, err := filepath.Glob(filepath.Join(mnt, ".draw/7/0/rrc24-npy/class00/*.npy"))
	if err != nil || len(names) != files {
		t.Fatal(len(names), err)
	}
	read := func(name string) [32]byte {
		t.Helper()
		data, err := os.ReadFile(name)
		testenv.Must(t, err)
		return sha256.Sum256(data)
	}
	first := read(names[0])
	for _, name := range names[1:] {
		read(name)
	}
	before := reads()
	if before < files {
		t.Fatalf("%d reads of %d files", before, files)
	}
	if read(names[files-1]); reads() != before {
		t.Error("the file that was read last has no pages")
	}
	testenv.Eventually(t, func() error {
		if read(names[0]) != first {
			t.Fatal("other bytes")
		}
		if reads() == before {
			return errors.New("the pages of the first file are still there")
		}
		return nil
	})
}
