package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/store/vfs"
	"github.com/pipefs/pipefs/store/vfs/faultfs"
	"github.com/pipefs/pipefs/transcode"
)

// failing is a disk on which one kind of operation fails, of names with a part.
func failing(kind, part string) vfs.FS {
	return &faultfs.FS{Base: vfs.OS, Inject: func(op faultfs.Op) error {
		return map[bool]error{true: syscall.EIO}[op.Kind == kind && strings.Contains(op.Name, part)]
	}}
}

// twoVersions is a store that was packed, and the dataset as it was then and as
// it is. An interrupted run has left a file that neither has.
func twoVersions(t *testing.T, dir string) (before, now *memSource) {
	t.Helper()
	r := random(t)
	before = generate(r, 9, 3_000)
	mustPack(t, dir, before, PackOptions{PackBytes: 8_000})
	before.put("class0/gone.jpg", nil)
	_, err := Pack(t.Context(), dir, before, fakeEncoder{id: "1"}, PackOptions{FS: failing("rename", partSuffix), Logger: quiet})
	if before.remove("class0/gone.jpg"); !errors.Is(err, syscall.EIO) {
		t.Fatal(err)
	}
	now = newSource()
	for name, f := range before.files {
		now.files[name] = f
	}
	now.put("class1/new.jpg", noise(r, 4_000))
	now.put("class0/0003.txt", noise(r, 70_000))
	now.put("class0/newer.jpg", noise(r, 9_000))
	now.put("zz.txt", nil) // in a pack that is not full
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

// firstFailed is where the first operation comes to that fails.
func firstFailed(fsys *faultfs.FS) *atomic.Pointer[faultfs.Op] {
	var hit atomic.Pointer[faultfs.Op]
	inject := fsys.Inject
	fsys.Inject = func(op faultfs.Op) error {
		err := inject(op)
		if err != nil {
			hit.CompareAndSwap(nil, &op)
		}
		return err
	}
	return &hit
}

// eachFault runs change on copies of a directory. Each time another operation fails, one in
// step of them from one at random on, and every second time all that follow it fail as well. check gets the copy, and what
// happened. It returns how often change failed. Whatever fails, no file stays open.
func eachFault(t *testing.T, start string, step int64, change func(dir string, fsys *faultfs.FS) error, check func(dir, what string, fault, err error)) (failed int) {
	t.Helper()
	faults := []error{syscall.EIO, syscall.ENOSPC, faultfs.ErrShort}
	r := random(t)
	root, first := tempDir(t), r.Int64N(3)
	for n := 1 + r.Int64N(step); ; n += step {
		dir := filepath.Join(root, fmt.Sprint(n))
		testenv.Must(t, os.CopyFS(dir, os.DirFS(start)))
		fault := faults[(n/step+first)%3]
		fsys := &faultfs.FS{Base: vfs.OS, Inject: faultfs.Nth(n, fault)}
		if n/step%2 == 0 { // a disk that is broken or full stays so
			fsys.Inject = faultfs.From(n, fault)
		}
		hit := firstFailed(fsys)
		err := change(dir, fsys)
		if err != nil {
			failed++
		}
		if op := hit.Load(); op != nil && err == nil && slices.Contains([]string{"create", "mkdir", "rename", "sync", "syncdir", "truncate", "write"}, op.Kind) {
			t.Errorf("operation %d, %v: nobody was told that to %s %s failed", n, fault, op.Kind, op.Name)
		} else if err != nil && !errors.Is(err, syscall.EIO) && !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("operation %d, %v: another error: %v", n, fault, err)
		}
		if held := fsys.Held(); len(held) > 0 {
			t.Errorf("operation %d, %v: open: %q", n, fault, held)
		}
		check(dir, fmt.Sprintf("operation %d, %v", n, fault), fault, err)
		testenv.Must(t, os.RemoveAll(dir))
		if fsys.Ops() < n {
			t.Logf("about %d operations, of which %d failing made the run fail", n-1, failed)
			testenv.Proved(t, "faults", failed)
			return failed
		}
	}
}

// eachCrash runs change on a directory. Before each operation that writes check gets what
// would be left if the power failed then. It returns how often that was, and what is left
// in the end.
func eachCrash(t *testing.T, disk string, change func(fsys vfs.FS) error, check func(disk, what string)) (crashes int, end string) {
	t.Helper()
	root := tempDir(t)
	crash, err := faultfs.NewCrashFS(disk)
	testenv.Must(t, err)
	clone := func() string {
		dir := filepath.Join(root, "clone")
		testenv.Must(t, errors.Join(os.RemoveAll(dir), crash.Clone(dir)))
		return dir
	}
	err = change(&faultfs.FS{Base: crash, Inject: func(op faultfs.Op) error {
		switch op.Kind {
		case "read", "stat", "open", "list":
		default:
			crashes++
			check(clone(), fmt.Sprintf("crash before %s %s", op.Kind, op.Name))
		}
		return nil
	}})
	testenv.Must(t, err)
	t.Logf("%d crashes", crashes)
	testenv.Proved(t, "faults", crashes)
	return crashes, clone()
}

// Every operation in turn fails while a store is brought up to date: what it
// held stays intact, and the next run completes it.
func TestEveryOperationFails(t *testing.T) {
	t.Parallel()
	start := filepath.Join(tempDir(t), "start")
	before, now := twoVersions(t, start)
	step := int64(1)
	if testenv.Race {
		step = 4 // slow
	}
	o := PackOptions{PackBytes: 8_000, RecordBytes: 4_000, Logger: quiet, Workers: 1}
	failed := eachFault(t, start, step, func(dir string, fsys *faultfs.FS) error {
		o := o
		o.FS = fsys
		_, err := Pack(t.Context(), dir, now, fakeEncoder{id: "1"}, o)
		return err
	}, func(dir, what string, fault, err error) {
		if err != nil && errors.Is(fault, syscall.ENOSPC) && !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("%s: %v", what, err)
		}
		if err := eitherVersion(dir, before, now); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if err != nil {
			mustPack(t, dir, now, o)
		}
		checkStore(t, dir, now)
	})
	if failed < 160/int(step) {
		t.Errorf("only %d faults hit", failed)
	}
}

// The power fails before every operation in turn: what was not synced is gone,
// what an earlier run completed is there, and the next run completes the rest.
func TestEveryOperationCrashes(t *testing.T) {
	t.Parallel()
	disk := filepath.Join(tempDir(t), "disk")
	before, now := twoVersions(t, filepath.Join(disk, "store"))
	o := PackOptions{PackBytes: 8_000, RecordBytes: 4_000, Workers: 1}
	crashes, end := eachCrash(t, disk, func(fsys vfs.FS) error {
		o := o
		o.FS = fsys
		mustPack(t, filepath.Join(disk, "store"), now, o)
		return nil
	}, func(disk, what string) {
		dir := filepath.Join(disk, "store")
		if err := eitherVersion(dir, before, now); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		mustPack(t, dir, now, o)
		checkStore(t, dir, now)
	})
	// What a run completed is durable as a whole, index included.
	if _, err := os.Stat(filepath.Join(end, "store", currentName)); err != nil {
		t.Error(err)
	}
	checkStore(t, filepath.Join(end, "store"), now)
	if crashes < 40 {
		t.Errorf("%d crashes", crashes)
	}
}

// What is packed is made durable every few seconds, and else, like what an overlay keeps, when its pack is sealed or left.
func TestSyncs(t *testing.T) {
	src := generate(random(t), 40, 300)
	synctest.Test(t, func(t *testing.T) {
		syncs := 0
		fsys := &faultfs.FS{Base: vfs.OS, Inject: func(op faultfs.Op) error {
			if op.Kind == "sync" && strings.HasSuffix(op.Name, partSuffix) {
				syncs++
			}
			return nil
		}}
		for delay, want := range map[time.Duration]int{0: 1, syncEvery / 4: 1 + 42/5} { // of 42 files
			syncs = 0
			_, err := Pack(t.Context(), tempDir(t), src, fakeEncoder{id: "1", delay: delay}, PackOptions{FS: fsys, Workers: 1, Logger: quiet})
			if err != nil || syncs != want {
				t.Errorf("%v a file: %d syncs, %v", delay, syncs, err)
			}
		}
		syncs = 0
		v, err := OpenOverlay(tempDir(t), OverlayOptions{FS: fsys, Logger: quiet})
		testenv.Must(t, err)
		for i := range 5 {
			time.Sleep(2 * syncEvery)
			testenv.Must(t, v.Put("a.jpg", Identity{Size: int64(i)}, transcode.Info{}, "ppm", transcode.Split{Data: []byte("result")}))
		}
		if testenv.Must(t, v.Close()); syncs != 1 {
			t.Errorf("an overlay: %d syncs", syncs)
		}
	})
}

// The same from nothing: a store that was never completed either opens, or says
// that it is none yet.
func TestCrashesOfTheFirstRun(t *testing.T) {
	t.Parallel()
	disk := tempDir(t)
	src := generate(random(t), 6, 3_000)
	eachCrash(t, disk, func(fsys vfs.FS) error {
		mustPack(t, filepath.Join(disk, "store"), src, PackOptions{FS: fsys, PackBytes: 4_000, Workers: 1})
		return nil
	}, func(disk, what string) {
		dir := filepath.Join(disk, "store")
		if err := eitherVersion(dir, newSource(), src); err != nil && !errors.Is(err, ErrNotStore) {
			t.Fatalf("%s: %v", what, err)
		}
		mustPack(t, dir, src, PackOptions{PackBytes: 4_000})
		checkStore(t, dir, src)
	})
}

// Readers and checks, too, meet operations that fail: an I/O error is told, and is not damage; results are missed, and that is all.
func TestReaderFaults(t *testing.T) {
	t.Parallel()
	dir, all := tempDir(t), wantedResults(4, 1)
	src := generate(random(t), 9, 3_000)
	mustPack(t, dir, src, PackOptions{PackBytes: 8_000})
	mustMaterialize(t, dir, all, FractionOptions{})
	for what, read := range map[string]func(fsys vfs.FS) error{
		"opened": func(fsys vfs.FS) error {
			s, err := Open(dir, Options{FS: fsys, Logger: quiet})
			if err != nil {
				return err
			}
			_, err = compareStore(s, src)
			if f := s.Fraction("ppm"); f != nil {
				for _, w := range all {
					if missed := readResult(f, w); !errors.Is(missed, ErrNotFound) {
						err = errors.Join(err, missed)
					}
				}
			}
			return errors.Join(err, s.Close())
		},
		"checked": func(fsys vfs.FS) error {
			problems, err := Check(t.Context(), dir, Options{FS: fsys, Logger: quiet}, nil)
			for _, p := range problems {
				err = errors.Join(err, p.Cause)
			}
			return err
		},
	} {
		for n := int64(1); ; n++ {
			fsys := &faultfs.FS{Base: vfs.OS, Inject: faultfs.Nth(n, syscall.EIO)}
			hit := firstFailed(fsys)
			err := read(fsys)
			failed := hit.Load()
			if failed == nil {
				testenv.Must(t, err)
				break
			}
			if held := fsys.Held(); len(held) > 0 {
				t.Errorf("%s, %s %s fails: open: %q", what, failed.Kind, failed.Name, held)
			}
			again := what == "opened" || failed.Kind == "stat" || strings.Contains(failed.Name, generationsName) // another try succeeds
			if err == nil && !again || err != nil && (!errors.Is(err, syscall.EIO) || errors.Is(err, ErrCorrupt) && !strings.Contains(err.Error(), "index")) {
				t.Errorf("%s, %s %s fails: %v", what, failed.Kind, failed.Name, err)
			}
		}
	}
	checkStore(t, dir, src)
}
