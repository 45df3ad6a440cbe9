package source

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/testenv"
)

func watch(t *testing.T, d *Directory) *Watcher {
	t.Helper()
	w, err := d.Watch()
	testenv.Must(t, err)
	t.Cleanup(func() { w.Close() })
	return w
}

func add(t *testing.T, w *Watcher, dir string) WatchID {
	t.Helper()
	id, err := w.Add(dir)
	testenv.Must(t, err)
	return id
}

// told reads events until all that are wanted were among them, in any order.
func told(t *testing.T, w *Watcher, want ...Event) {
	t.Helper()
	testenv.Must(t, w.f.SetReadDeadline(time.Now().Add(20*time.Second)))
	missing := map[Event]bool{}
	for _, e := range want {
		missing[e] = true
	}
	var all []Event
	for len(missing) > 0 {
		events, err := w.Read(nil)
		if err != nil {
			t.Fatalf("%v; missing %v of %v", err, missing, all)
		}
		all = append(all, events...)
		for _, e := range events {
			delete(missing, e)
		}
	}
}

func TestWatcherTellsChanges(t *testing.T) {
	root := t.TempDir()
	tree(t, root, "a/x", "a/y", "b/", "a/sub/")
	w := watch(t, open(t, root, Options{}))
	top, a := add(t, w, ""), add(t, w, "a")
	at := func(name string) string { return filepath.Join(root, name) }
	do := func(err error) {
		t.Helper()
		testenv.Must(t, err)
	}
	writer, err := os.OpenFile(at("a/x"), os.O_WRONLY, 0)
	do(err)
	defer writer.Close()
	for _, c := range []struct {
		how  string
		do   func()
		want []Event
	}{
		{"written, and still open", func() {
			_, err := writer.Write([]byte("new"))
			do(err)
		}, []Event{{a, "x", Content}}},
		{"closed by who wrote it", func() { do(writer.Close()) }, []Event{{a, "x", Content}}},
		{"truncated", func() { do(os.Truncate(at("a/x"), 1)) }, []Event{{a, "x", Content}}},
		{"touched", func() { do(os.Chtimes(at("a/x"), time.Time{}, time.Unix(1, 0))) }, []Event{{a, "x", Content}}},
		{"permissions", func() { do(os.Chmod(at("a/x"), 0o600)) }, []Event{{a, "x", Content}}},
		{"created", func() { tree(t, root, "a/new") }, []Event{{a, "new", Names}, {a, "new", Content}}},
		{"replaced", func() { do(os.Rename(at("a/new"), at("a/y"))) }, []Event{{a, "new", Names}, {a, "y", Names}}},
		{"deleted", func() { do(os.Remove(at("a/y"))) }, []Event{{a, "y", Names}}},
		{"link made", func() { do(os.Symlink("x", at("a/l"))) }, []Event{{a, "l", Names}}},
		{"permissions of a directory", func() { do(os.Chmod(at("a"), 0o700)) }, []Event{{a, "", Content}, {top, "a", Content}}},
		{"directory moved", func() { do(os.Rename(at("a"), at("c"))) }, []Event{{top, "a", Names}, {top, "c", Names}, {a, "", Gone}}},
		{"directory deleted", func() { do(os.RemoveAll(at("c"))) }, []Event{{top, "c", Names}, {a, "", Gone}}},
	} {
		t.Run(c.how, func(t *testing.T) {
			c.do()
			told(t, w, c.want...)
		})
	}
	for deadline := time.Now().Add(10 * time.Second); w.Count() != 1; {
		if time.Now().After(deadline) {
			t.Fatalf("%d directories are watched after one of two was deleted", w.Count())
		}
		do(os.WriteFile(at("more"), nil, 0o644)) // so that there is something to read
		told(t, w, Event{top, "more", Content})
	}
}

func TestDroppedDirectoriesAreSilent(t *testing.T) {
	root := t.TempDir()
	tree(t, root, "a/x", "b/x")
	w := watch(t, open(t, root, Options{}))
	a, b := add(t, w, "a"), add(t, w, "b")
	w.Drop(a)
	w.Drop(a)
	tree(t, root, "a/y", "b/y")
	events, err := w.Read(nil)
	testenv.Must(t, err)
	for _, e := range events {
		if e.Dir != b {
			t.Errorf("event %+v of a directory that was dropped", e)
		}
	}
	if again := add(t, w, "a"); again == a {
		t.Error("a number was used again")
	}
}

func TestFollow(t *testing.T) {
	root, outside := t.TempDir(), t.TempDir()
	tree(t, outside, "store/v1/x", "store/current -> v1", "abs")
	tree(t, root, "blobs/1", "snap/a/one -> ../../blobs/1", "snap/two -> a/one", "snap/plain", "up -> ..", "gone -> nowhere/x",
		"snap/out -> "+outside+"/store/current/x", "dir -> snap/a", "loop -> loop", "here -> .", "top -> /", "proc -> /proc/self/status")
	d := open(t, root, Options{})
	w := watch(t, d)
	for link, want := range map[string]string{
		"snap/plain": "", "snap/a/one": "blobs/1", "snap/two": "snap/a/one blobs/1", "dir": "snap/a", "up": "", "here": "", "top": "",
		"snap/out": outside + "/store/v1/x",
	} {
		members, err := w.Follow(link)
		if err != nil {
			t.Errorf("%s: %v", link, err)
			continue
		}
		var got []string
		for i, name := range strings.Fields(want) {
			dir := filepath.Dir(name)
			var id WatchID
			if filepath.IsAbs(dir) {
				fd, err := unix.Open(dir, unix.O_PATH, 0)
				testenv.Must(t, err)
				id, err = w.add(fd)
				unix.Close(fd)
				testenv.Must(t, err)
			} else {
				id = add(t, w, dir)
			}
			if i < len(members) && members[i] == (Member{id, filepath.Base(name)}) {
				got = append(got, name)
			}
		}
		if strings.Join(got, " ") != want || len(members) != len(got) {
			t.Errorf("%s: %v is not %q", link, members, want)
		}
	}
	if _, err := w.Follow("gone"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a link into a directory that is not there: %v", err)
	}
	for link, want := range map[string]error{"nowhere/x": fs.ErrNotExist, strings.Repeat("x", 300): unix.ENAMETOOLONG} {
		if _, err := w.Follow(link); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", link, err, want)
		}
	}
	if _, err := w.Follow("proc"); err == nil || !strings.Contains(err.Error(), "unknown type 0x9fa0") {
		t.Errorf("a link to another file system: %v", err)
	}
	if _, err := w.Follow("loop"); err != nil {
		t.Errorf("a link to itself: %v", err)
	}
}

func TestWhatCannotBeWatched(t *testing.T) {
	proc := open(t, "/proc/self", Options{})
	_, err := proc.Watch()
	for _, err := range []error{err, (&Watcher{d: proc, max: 1 << 20, local: map[uint64]error{}}).fits()} {
		if err == nil || !strings.Contains(err.Error(), "unknown type 0x9fa0") {
			t.Errorf("/proc: %v", err)
		}
	}
	root := t.TempDir()
	for i := range 10 {
		tree(t, root, fmt.Sprint("x", i), fmt.Sprintf("d%d/e/x", i), fmt.Sprint("y", i), fmt.Sprintf("d%d/e/y", i), fmt.Sprint("z", i))
	}
	d := open(t, root, Options{})
	for most, want := range map[int]bool{5: false, 20: false, 21: true, 1000: true} {
		w := &Watcher{d: d, max: most, local: map[uint64]error{}}
		if err := w.fits(); (err == nil) != want {
			t.Errorf("21 directories where %d may be watched: %v", most, err)
		}
	}
	for until, want := range map[time.Time]int{time.Now().Add(time.Minute): 21, time.Now(): 1} {
		if n := d.directories(100, until); n != want {
			t.Errorf("%d directories, want %d", n, want)
		}
	}
	w := watch(t, d)
	if want := min(readInt("/proc/sys/fs/inotify/max_user_watches", 1<<30), readInt("/proc/sys/user/max_inotify_watches", 1<<30)) / 2; w.max != want || readInt("/nowhere", 7) != 7 {
		t.Errorf("%d directories may be watched, want %d", w.max, want)
	}
	w.max = 2
	a := add(t, w, "d0")
	add(t, w, "d1")
	if _, err := w.Add("d2"); !errors.Is(err, errTooMany) {
		t.Errorf("a third directory of two: %v", err)
	}
	if b := add(t, w, "d0"); b != a {
		t.Error("a directory that is watched was refused")
	}
	w.Drop(a)
	add(t, w, "d2")
	if _, err := w.Add("d0/e/x"); !errors.Is(err, unix.ENOTDIR) {
		t.Errorf("a file: %v", err)
	}
	w.Close()
	w.Close()
	w.Drop(a)
	if _, err := w.Add("d3"); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	if _, err := w.Read(nil); err == nil {
		t.Error("reading after Close gave no error")
	}
}

// TestLostEventsAreTold: the kernel keeps only so many events.
func TestLostEventsAreTold(t *testing.T) {
	most := readInt("/proc/sys/fs/inotify/max_queued_events", 1<<30)
	if most > 1<<17 {
		t.Skip("the system keeps too many events to lose some")
	}
	root := t.TempDir()
	tree(t, root, "x", "y")
	w := watch(t, open(t, root, Options{}))
	add(t, w, "")
	for i := range most + 10 {
		// in turn: what repeats itself is one event
		testenv.Must(t, os.Chmod(filepath.Join(root, []string{"x", "y"}[i%2]), 0o644))
	}
	told(t, w, Event{Change: Lost})
}
