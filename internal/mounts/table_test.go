package mounts

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/testenv"
)

// What was mounted last hides the others, and a path lies in the innermost mount.
func TestAtAndHolding(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	testenv.Must(t, err)
	inner := filepath.Join(dir, "a b")
	for i, at := range []string{dir, inner, inner} {
		if err := errors.Join(os.MkdirAll(at, 0o700), unix.Mount(fmt.Sprint("none", i), at, "tmpfs", 0, "")); err != nil {
			t.Fatalf("mounting a tmpfs, which this test needs root for: %v", err)
		}
		t.Cleanup(func() { _ = unix.Unmount(at, unix.MNT_DETACH) })
	}
	for path, want := range map[string]string{dir: "none0", inner: "none2"} {
		if m, err := At(path); err != nil || m == nil || m.Source != want || m.Ours() {
			t.Errorf("at %s: %+v, %v", path, m, err)
		}
	}
	if m, err := At(inner + "/none"); m != nil || err != nil {
		t.Errorf("%+v, %v", m, err)
	}
	for path, want := range map[string]string{dir + "/x/y": "none0", inner + "/x": "none2", inner + "2": "none0"} {
		if m, err := Holding(path); err != nil || m == nil || m.Source != want {
			t.Errorf("%s is held by %+v, %v", path, m, err)
		}
	}
	if all, err := Within(dir); err != nil || len(all) != 3 {
		t.Errorf("%d mounts, %v", len(all), err)
	}
}

func TestOwner(t *testing.T) {
	for options, want := range map[string]int{"ro,user_id=1000,group_id=1": 1000, "ro,user_id=0": 0, "rw": -1} {
		if uid, ok := (&Mount{VFSOptions: options}).Owner(); ok != (want >= 0) || ok && uid != want {
			t.Errorf("%s: %d, %v", options, uid, ok)
		}
	}
}

func TestBelow(t *testing.T) {
	for _, c := range []struct {
		path, dir string
		want      bool
	}{
		{"/a/b", "/a", true}, {"/a", "/a", true}, {"/ab", "/a", false}, {"/a", "/a/b", false}, {"/x", "/", true}, {"/", "/", true},
	} {
		if got := Below(c.path, c.dir); got != c.want {
			t.Errorf("Below(%q, %q) = %v", c.path, c.dir, got)
		}
	}
}

func TestSeenBy(t *testing.T) {
	proc := t.TempDir()
	if err := os.WriteFile(filepath.Join(proc, "mountinfo"), []byte(`42 22 0:39 / /mnt/my\040data ro,nosuid,nodev - fuse.pipefs /data/a ro,user_id=1000
43 22 0:40 /sub /mnt rw shared:7 master:3 propagate_from:2 - tmpfs tmpfs rw,size=4k
46 22 0:4 mnt:[4026532177] /run/kept rw - nsfs nsfs rw
`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		dev, own string
		want     bool
	}{
		{"0:39", "mnt:[1]", true},           // a copy of the mount
		{"0:40", "mnt:[1]", false},          // that is no mount of ours
		{"0:99", "mnt:[4026532177]", true},  // the namespace is kept
		{"0:99", "mnt:[4026532178]", false}, // another one
	} {
		if got := (Place{dev: c.dev}).seenBy(proc, c.own); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
