package fs

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/transcode"
)

// TestDraw enters random views: by path, and by no other name.
func TestDraw(t *testing.T) {
	inBoth(t, func(t *testing.T, m *mounted) {
		m.write("d/a.jpg", noise(10_000, 1))
		show := func(view string) string { return string(derived(view, []byte(noise(10_000, 1)))) }
		m.want(show("flip-npy"), ".draw/7/3/flip-npy/d/a.npy")
		m.want(show("resize8-flip-npy"), ".draw/0/18446744073709551615/resize8-flip-npy-own/d/a.jpg")
		ino := func(path ...string) uint64 {
			var st unix.Stat_t
			testenv.Must(t, unix.Lstat(m.path(path...), &st))
			return st.Ino
		}
		m.want(show("flip-npy"), ".draw/7/3.2/flip-npy/d/a.npy")
		if ino(".draw/7/3/flip-npy/d/a.npy") == ino(".draw/7/3.2/flip-npy/d/a.npy") {
			t.Error("two draws of an epoch are one file")
		}
		if ino(".draw/7/3/flip-npy/d/a.npy") == ino(".draw/7/4/flip-npy/d/a.npy") || ino(".draw/7/3/flip-npy/d/a.npy") != ino(".draw/7/3/flip-npy-own/d/a.jpg") {
			t.Error("two epochs are one file, or own names are others")
		}
		for _, bad := range []string{
			".draw/x", ".draw/07", ".draw/-1", ".draw/18446744073709551616", ".draw/7/x", ".draw/7/03",
			".draw/7.1", ".draw/7/3.0", ".draw/7/3.01", ".draw/7/3.", ".draw/7/.1", ".draw/7/3.1.1", ".draw/7/3.4294967296",
			".draw/7/3/npy", ".draw/7/3/original", ".draw/7/3/flip-jpeg90", ".draw/7/3/flip", ".draw/7/3/.draw", "flip", ".draw/flip-npy",
		} {
			if _, err := os.Lstat(m.path(bad)); !errors.Is(err, unix.ENOENT) {
				t.Errorf("%s: %v", bad, err)
			}
		}
		for epoch, numbers := range map[string]string{"3": `"epoch":3,"repeat":0`, "4": `"epoch":4,"repeat":0`, "3.2": `"epoch":3,"repeat":2`} {
			told := `{"sample":"d/a.jpg","view":"flip-npy","seed":7,` + numbers + `,"size":[10000,1],"moves":[{"step":"flip","box":[0,0,10000,1],"size":[10000,1],"flip":false}]}` + "\n"
			m.want(told, ".draw/7", epoch, "flip-npy/d/a.npy.draw")
			m.want(told, ".draw/7", epoch, "flip-npy/d/a.jpg.draw")
		}
		for _, bad := range []string{".draw/7/3/flip-npy/d/b.npy.draw", ".draw/7/3/flip-npy/d/.draw", ".draw/7/3/flip-npy/d.draw", "flip-npy/d/a.npy.draw", "npy/d/a.npy.draw"} {
			if _, err := os.Lstat(m.path(bad)); !errors.Is(err, unix.ENOENT) {
				t.Errorf("%s: %v", bad, err)
			}
		}
		m.write("val/a.jpg", noise(10_000, 1))
		for _, epoch := range []string{"3", "4"} {
			m.want(show("flip-npy"), ".draw/7", epoch, "flip-npy/val/a.npy")
		}
		if n := strings.Count(m.log.String(), "the view that does not is npy"); n != 1 {
			t.Errorf("told of val %d times:\n%s", n, m.log)
		}
		for _, dir := range []string{".draw", ".draw/7", ".draw/7/3"} {
			if got := m.names(dir); got != "" {
				t.Errorf("%s lists %s", dir, got)
			}
		}
	})
}

// TestPastEpochs wants the mount to forget epochs that are over, and to know each of them
// again when somebody asks.
func TestPastEpochs(t *testing.T) {
	m := mount(t, PageCache)
	m.write("d/a.jpg", noise(10_000, 1))
	show := string(derived("flip-npy", []byte(noise(10_000, 1))))
	const epochs = 50
	for epoch := range epochs {
		m.want(show, fmt.Sprintf(".draw/7/%d/flip-npy/d/a.npy", epoch))
	}
	m.told() // or the kernel may still have the pages of this one
	m.want(show, ".draw/7/3/flip-npy/d/a.npy")
	few := func() error {
		m.told()
		n := 0
		for _, v := range m.fs.views.all() {
			if v.pipeline.Random() {
				n++
			}
		}
		if n > 4 {
			return fmt.Errorf("%d epochs are still known", n)
		}
		return nil
	}
	testenv.Eventually(t, few)
	var stats []ViewStats
	for _, v := range m.fs.Stats().Views {
		if v.View == transcode.DrawDir+"/…/flip-npy" {
			stats = append(stats, v)
		}
	}
	if len(stats) != 1 || stats[0].Begun != epochs+1 {
		t.Errorf("counted %+v", stats)
	}
}

// TestEachOpenDraws reads a random view by a path that names no epoch: each open is
// another file, which stays what it is, also where two have the same name open.
func TestEachOpenDraws(t *testing.T) {
	inBoth(t, func(t *testing.T, m *mounted) {
		m.write("d/a.jpg", noise(10_000, 1))
		m.write("d/labels.json", "{}")
		show := string(derived("flip-npy", []byte(noise(10_000, 1))))
		name := m.path("flip-npy/d/a.npy")
		inodes := map[uint64]bool{}
		var open []*os.File
		for range 20 {
			f, err := os.Open(name)
			testenv.Must(t, err)
			open = append(open, f)
			var st unix.Stat_t
			testenv.Must(t, unix.Fstat(int(f.Fd()), &st))
			inodes[st.Ino] = true
		}
		if len(inodes) != len(open) {
			t.Errorf("%d opens are %d files", len(open), len(inodes))
		}
		for _, f := range open {
			for range 2 {
				got := make([]byte, len(show))
				if _, err := f.ReadAt(got, 0); err != nil || string(got) != show {
					t.Errorf("an open file: %v", err)
				}
			}
			f.Close()
		}
		for range 2 {
			m.want("{}", "flip-npy/d/labels.json")
		}
		if got := m.names("flip-npy/d"); got != "a.npy labels.json" {
			t.Error(got)
		}
		if n := strings.Count(m.log.String(), "each open of a file is its next draw"); n != 1 {
			t.Errorf("told %d times", n)
		}
		testenv.Must(t, m.fs.listView("flip-npy"))
		if got := m.names(""); !strings.Contains(got, "flip-npy") {
			t.Errorf("the root lists %s", got)
		}
	})
}
