package e2e

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/internal/testmount"
)

// TestRandomViews wants a path below .draw to name the same bytes, whoever reads it: many
// processes in no order, another mount with other workers and another cache, a mount of a
// store, and one after the daemon was killed.
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

	// A daemon that dies in the middle of an epoch
	mnt4 := filepath.Join(t.TempDir(), "mnt")
	testenv.Must(t, os.Mkdir(mnt4, 0o755))
	testmount.Command(t, env, "mount", dataset, mnt4)
	files, err := filepath.Glob(filepath.Join(epoch(mnt4, 7, 0, view), "*/*.npy"))
	if err != nil || len(files) != 24 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	if _, err := os.ReadFile(files[0]); err != nil {
		t.Error(err)
	}
	testenv.Must(t, syscall.Kill(statsOf(t, mnt4).PID, syscall.SIGKILL))
	testenv.Eventually(t, func() error {
		if _, err := os.Stat(files[1]); !errors.Is(err, unix.ENOTCONN) {
			return fmt.Errorf("after the daemon was killed: %w", err)
		}
		return nil
	})
	testmount.Command(t, env, "mount", "--workers", "3", dataset, mnt4)
	defer testmount.Command(t, env, "umount", mnt4)
	same("after the daemon was killed", epoch(mnt4, 7, 0, view))
}

// TestRandomViewsAtOnce has several readers open one file of a random view at once, by a path
// that names no epoch, and read it in small pieces. Each gets a draw of its own, whole.
func TestRandomViewsAtOnce(t *testing.T) {
	t.Parallel()
	const view, readers, seed = "rrc64scale20to100-hflip-npy", 8, 11
	env := testmount.Home(t)
	dataset := testmount.Generate(t, "-samples", "4", "-classes", "1")
	for _, cache := range []string{"page", "daemon"} {
		mnt := testmount.Mount(t, env, dataset, "--seed", fmt.Sprint(seed), "--cache", cache)
		name := "class00/" + filepath.Base(firstOf(t, filepath.Join(mnt, "npy/class00")))
		draws := map[[32]byte]int{}
		for n := range 64 * readers { // the kernel looks a name up several times for one open
			data, err := os.ReadFile(filepath.Join(mnt, ".draw", fmt.Sprint(seed), fmt.Sprint(n), view, name))
			testenv.Must(t, err)
			draws[sha256.Sum256(data)] = n
		}
		files := make([]*os.File, readers)
		var opening sync.WaitGroup
		for i := range files {
			opening.Go(func() {
				var err error
				if files[i], err = os.Open(filepath.Join(mnt, view, name)); err != nil {
					t.Error(err)
				}
			})
		}
		opening.Wait()
		if t.Failed() {
			t.FailNow()
		}
		sums := make([]hash.Hash, readers)
		for i := range sums {
			sums[i] = sha256.New()
		}
		// A piece of each in turn, so that all of them are in the middle at once.
		for piece := make([]byte, 1000); ; {
			left := 0
			for i, f := range files {
				n, err := f.Read(piece)
				sums[i].Write(piece[:n])
				if err == nil {
					left++
				} else if !errors.Is(err, io.EOF) {
					t.Fatal(err)
				}
			}
			if left == 0 {
				break
			}
		}
		seen := map[int]bool{}
		for i, f := range files {
			f.Close()
			n, ok := draws[[32]byte(sums[i].Sum(nil))]
			if !ok {
				t.Errorf("--cache %s: what reader %d got is no draw", cache, i)
			}
			seen[n] = true
		}
		if len(seen) != readers {
			t.Errorf("--cache %s: %d readers got %d draws", cache, readers, len(seen))
		}
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
