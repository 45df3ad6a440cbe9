package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/store/vfs"
	"github.com/pipefs/pipefs/store/vfs/faultfs"
)

// twoVersions is a store that was packed, and the dataset as it was then and is
// now.
func twoVersions(t *testing.T, dir string) (before, now *memSource) {
	t.Helper()
	r := random(t)
	before = generate(r, 9, 3_000)
	mustPack(t, dir, before, PackOptions{PackBytes: 8_000})
	now = newSource()
	for name, f := range before.files {
		now.files[name] = f
	}
	now.put("class1/new.jpg", noise(r, 4_000))
	now.put("class0/0003.txt", noise(r, 70_000))
	now.put("class0/newer.jpg", noise(r, 9_000))
	now.remove("class2")
	return before, now
}

// eitherVersion checks that each path is as it was before or as it is now.
func eitherVersion(dir string, before, now *memSource) error {
	s, err := Open(dir, Options{Logger: quiet})
	if err != nil {
		return err
	}
	defer s.Close()
	for name, old := range before.files {
		is, isThere := now.files[name]
		got, err := s.Lookup(name)
		switch {
		case errors.Is(err, ErrNotFound) && !isThere:
			continue
		case err != nil:
			return fmt.Errorf("%s: %w", name, err)
		case got.Kind == Dir:
			continue
		case got.Source == old.id:
			_, err = compareSample(s.Reader, &got, old.data)
		case isThere && got.Source == is.id:
			_, err = compareSample(s.Reader, &got, is.data)
		default:
			err = errors.New("neither version")
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// Every operation in turn fails while a store is brought up to date: what it
// held stays intact, and the next run completes it.
func TestEveryOperationFails(t *testing.T) {
	root := tempDir(t)
	start := filepath.Join(root, "start")
	before, now := twoVersions(t, start)
	faults := []error{syscall.EIO, syscall.ENOSPC, faultfs.ErrShort}
	first := int(random(t).Uint64() % 3)
	failed := 0
	step := int64(1)
	if testenv.Race {
		step = 4 // slow
	}
	for n := int64(1); ; n += step {
		dir := filepath.Join(root, fmt.Sprint(n))
		if err := os.CopyFS(dir, os.DirFS(start)); err != nil {
			t.Fatal(err)
		}
		fault := faults[(int(n)+first)%3]
		fsys := &faultfs.FS{Base: vfs.OS, Inject: faultfs.Nth(n, fault)}
		if n/step%2 == 0 { // a disk that is broken or full stays so
			fsys.Inject = faultfs.From(n, fault)
		}
		o := PackOptions{FS: fsys, PackBytes: 8_000, RecordBytes: 4_000, Logger: quiet, Workers: 1}
		_, err := Pack(context.Background(), dir, now, fakeEncoder{id: "1"}, o)
		if err != nil {
			failed++
			if errors.Is(fault, syscall.ENOSPC) && !errors.Is(err, syscall.ENOSPC) {
				t.Errorf("operation %d, a full disk: %v", n, err)
			}
		}
		if err := eitherVersion(dir, before, now); err != nil {
			t.Fatalf("operation %d, %v: %v", n, fault, err)
		}
		mustPack(t, dir, now, PackOptions{PackBytes: 8_000, RecordBytes: 4_000})
		checkStore(t, dir, now)
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		if fsys.Ops() < n {
			t.Logf("about %d operations, of which %d failing made the run fail", n-1, failed)
			break
		}
	}
	if failed < 40 {
		t.Errorf("only %d faults hit", failed)
	}
}

// The power fails before every operation in turn: what was not synced is gone,
// what an earlier run completed is there, and the next run completes the rest.
func TestEveryOperationCrashes(t *testing.T) {
	root := tempDir(t)
	before, now := twoVersions(t, filepath.Join(root, "disk", "store"))
	crash, err := faultfs.NewCrashFS(filepath.Join(root, "disk"))
	if err != nil {
		t.Fatal(err)
	}
	clones, busy := 0, false
	fsys := &faultfs.FS{Base: crash, Inject: func(op faultfs.Op) error {
		if op.Kind == "read" || op.Kind == "stat" || op.Kind == "open" || op.Kind == "list" || busy {
			return nil
		}
		clones++
		dir := filepath.Join(root, "clone")
		if err := errors.Join(os.RemoveAll(dir), crash.Clone(dir)); err != nil {
			t.Fatal(err)
		}
		dir = filepath.Join(dir, "store")
		if err := eitherVersion(dir, before, now); err != nil {
			t.Fatalf("crash before %s %s: %v", op.Kind, op.Name, err)
		}
		mustPack(t, dir, now, PackOptions{PackBytes: 8_000, RecordBytes: 4_000})
		checkStore(t, dir, now)
		return nil
	}}
	mustPack(t, filepath.Join(root, "disk", "store"), now, PackOptions{FS: fsys, PackBytes: 8_000, RecordBytes: 4_000, Workers: 1})
	busy = true
	// What a run completed is durable as a whole, index included.
	dir := filepath.Join(root, "end")
	if err := crash.Clone(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "store", currentName)); err != nil {
		t.Error(err)
	}
	checkStore(t, filepath.Join(dir, "store"), now)
	if clones < 40 {
		t.Errorf("%d crashes", clones)
	}
	t.Logf("%d crashes", clones)
}

// The same from nothing: a store that was never completed either opens, or says
// that it is none yet.
func TestCrashesOfTheFirstRun(t *testing.T) {
	root := tempDir(t)
	disk := filepath.Join(root, "disk")
	if err := os.Mkdir(disk, 0o755); err != nil {
		t.Fatal(err)
	}
	crash, err := faultfs.NewCrashFS(disk)
	if err != nil {
		t.Fatal(err)
	}
	src := generate(random(t), 6, 3_000)
	fsys := &faultfs.FS{Base: crash, Inject: func(op faultfs.Op) error {
		if op.Kind == "read" || op.Kind == "stat" || op.Kind == "open" || op.Kind == "list" {
			return nil
		}
		dir := filepath.Join(root, "clone")
		if err := errors.Join(os.RemoveAll(dir), crash.Clone(dir)); err != nil {
			t.Fatal(err)
		}
		dir = filepath.Join(dir, "store")
		err := eitherVersion(dir, newSource(), src)
		if err != nil && !errors.Is(err, ErrNotStore) {
			t.Fatalf("crash before %s %s: %v", op.Kind, op.Name, err)
		}
		mustPack(t, dir, src, PackOptions{PackBytes: 4_000})
		checkStore(t, dir, src)
		return nil
	}}
	mustPack(t, filepath.Join(disk, "store"), src, PackOptions{FS: fsys, PackBytes: 4_000, Workers: 1})
}

// Readers, too, meet operations that fail.
func TestReaderFaults(t *testing.T) {
	dir := tempDir(t)
	src := generate(random(t), 9, 3_000)
	mustPack(t, dir, src, PackOptions{PackBytes: 8_000})
	for n := int64(1); ; n++ {
		fsys := &faultfs.FS{Base: vfs.OS, Inject: faultfs.Nth(n, syscall.EIO)}
		s, err := Open(dir, Options{FS: fsys, Logger: quiet})
		if err == nil {
			_, err = compareStore(s, src)
			err = errors.Join(err, s.Close())
		}
		// an I/O error is not corruption
		if err != nil && (!errors.Is(err, syscall.EIO) || errors.Is(err, ErrCorrupt) && !strings.Contains(err.Error(), "index")) {
			t.Fatalf("operation %d: %v", n, err)
		}
		if fsys.Ops() < n {
			break
		}
	}
	checkStore(t, dir, src)
}
