package faultfs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/store/vfs"
)

func TestFaults(t *testing.T) {
	name := filepath.Join(t.TempDir(), "f")
	f := &FS{Base: vfs.OS, Inject: Nth(2, ErrShort)}
	file, err := f.Create(name)
	testenv.Must(t, err)
	n, err := file.WriteAt([]byte("abcdef"), 0)
	if n != 3 || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("a short write: %d, %v", n, err)
	}
	if size, err := file.Size(); size != 3 || err != nil {
		t.Errorf("%d bytes, %v", size, err)
	}
	f.Inject = From(f.Ops()+1, syscall.EIO)
	for range 2 {
		if err := file.Sync(); !errors.Is(err, syscall.EIO) {
			t.Errorf("sync: %v", err)
		}
	}
	if err := file.Close(); err != nil {
		t.Error(err)
	}
}

// What was not synced is gone after a crash: content, names, renames.
func TestCrash(t *testing.T) {
	root := t.TempDir()
	testenv.Must(t, os.WriteFile(filepath.Join(root, "old"), []byte("old"), 0o644))
	c, err := NewCrashFS(root)
	testenv.Must(t, err)
	at := func(name string) string { return filepath.Join(root, name) }
	step := func(err error) {
		t.Helper()
		testenv.Must(t, err)
	}
	clones := 0
	survives := func(want map[string]string) {
		t.Helper()
		clones++
		dst := filepath.Join(t.TempDir(), "clone")
		step(c.Clone(dst))
		got := map[string]string{}
		step(fs.WalkDir(os.DirFS(dst), ".", func(p string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				b, err := os.ReadFile(filepath.Join(dst, p))
				got[p] = string(b)
				return err
			}
			return err
		}))
		if len(got) != len(want) {
			t.Errorf("clone %d holds %q, want %q", clones, got, want)
		}
		for name, text := range want {
			if got[name] != text {
				t.Errorf("clone %d holds %q, want %q", clones, got, want)
			}
		}
	}
	f, err := c.Create(at("a"))
	step(err)
	_, err = f.WriteAt([]byte("one"), 0)
	step(err)
	survives(map[string]string{"old": "old"})
	step(f.Sync())
	survives(map[string]string{"old": "old"}) // no name yet
	step(c.SyncDir(root))
	survives(map[string]string{"old": "old", "a": "one"})
	_, err = f.WriteAt([]byte("two"), 0)
	step(err)
	step(c.Rename(at("a"), at("b")))
	survives(map[string]string{"old": "old", "a": "one"})
	step(f.Sync())
	survives(map[string]string{"old": "old", "a": "two"})
	step(c.MkdirAll(at("d")))
	step(c.Rename(at("b"), at("d/b")))
	step(c.Remove(at("old")))
	step(c.SyncDir(root))
	survives(map[string]string{}) // the name in d is not durable
	step(c.SyncDir(at("d")))
	step(c.Rename(at("d"), at("e")))
	survives(map[string]string{"d/b": "two"})
	step(c.SyncDir(root))
	survives(map[string]string{"e/b": "two"})
	step(f.Close())
}
