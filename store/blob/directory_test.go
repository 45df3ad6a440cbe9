package blob_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/store/blob"
)

func directory(t testing.TB) (o blob.Objects, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "not/yet")
	d, err := blob.OpenDirectory(path)
	testenv.Must(t, err)
	return d, path
}

func TestDirectory(t *testing.T) {
	contract(t, func(t testing.TB) blob.Objects {
		o, _ := directory(t)
		return o
	})
}

func TestDirectoryIsNoFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	testenv.Must(t, os.WriteFile(path, nil, 0o666))
	if _, err := blob.OpenDirectory(path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("opening a file: %v", err)
	}
}

// What is no object is not listed, and does not stop a reader.
func TestDirectoryOfOtherThings(t *testing.T) {
	o, path := directory(t)
	put(t, o, "dir/x", "x")
	testenv.Must(t, syscall.Mkfifo(filepath.Join(path, "fifo"), 0o666))
	testenv.Must(t, os.Mkdir(filepath.Join(path, "empty"), 0o777))
	testenv.Must(t, os.Symlink("nowhere", filepath.Join(path, "broken")))
	testenv.Must(t, os.Symlink("dir/x", filepath.Join(path, "link")))
	for _, name := range []string{"fifo", "empty", "broken", "dir/x/y"} {
		_, err := o.Stat(t.Context(), name)
		is(t, err, os.ErrNotExist)
	}
	if got := list(t, o, "", false); !slices.Equal(got, []string{"dir/", "link"}) {
		t.Errorf("list: %q", got)
	}
	i, err := o.Stat(t.Context(), "link")
	testenv.Must(t, err)
	if got := read(t, o, "link", i.Version, 0, 1); got != "x" {
		t.Errorf("the link holds %q", got)
	}
}

// A file that was changed in place, with its old size and time, is another version.
func TestDirectoryChangedInPlace(t *testing.T) {
	o, path := directory(t)
	v := put(t, o, "x", "old")
	file := filepath.Join(path, "x")
	info, err := os.Stat(file)
	testenv.Must(t, err)
	testenv.EventuallyIs(t, "the clock of files moved on", func() bool {
		testenv.Must(t, os.WriteFile(file, []byte("new"), 0o666))
		testenv.Must(t, os.Chtimes(file, time.Time{}, info.ModTime()))
		i, err := o.Stat(t.Context(), "x")
		testenv.Must(t, err)
		return i.Version != v
	})
	is(t, o.ReadAt(t.Context(), "x", v, make([]byte, 3), 0), blob.ErrChanged)
}

// What a crash left is never listed. It is removed when nobody can be writing it any more.
func TestDirectoryUnfinished(t *testing.T) {
	o, path := directory(t)
	testenv.Must(t, os.MkdirAll(path, 0o777))
	old, young := filepath.Join(path, ".pipefs-unfinished-old"), filepath.Join(path, ".pipefs-unfinished-young")
	for _, file := range []string{old, young} {
		testenv.Must(t, os.WriteFile(file, []byte("half"), 0o666))
	}
	testenv.Must(t, os.Chtimes(old, time.Time{}, time.Now().Add(-48*time.Hour)))
	if got := list(t, o, "", true); len(got) != 0 {
		t.Errorf("unfinished files are listed: %q", got)
	}
	put(t, o, "x", "x")
	_, errOld := os.Stat(old)
	_, errYoung := os.Stat(young)
	if !os.IsNotExist(errOld) || errYoung != nil {
		t.Errorf("after a put: the old file: %v, the young one: %v", errOld, errYoung)
	}
}
