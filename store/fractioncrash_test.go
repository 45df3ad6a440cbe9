package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/store/vfs"
	"github.com/pipefs/pipefs/store/vfs/faultfs"
)

// fractionChange is a change of a fraction that something interrupts.
type fractionChange struct {
	name          string
	before, after []Wanted
	all           []Wanted // those after, then all others that may be there
}

func fractionChanges() []fractionChange {
	const packBytes = 26 // results of some 45 kB in packs of 200 kB
	all := wantedResults(packBytes+10, 1)
	// Some changed, some are gone, some are new.
	packedAgain := slices.Clone(all[:packBytes])
	for i := range packedAgain {
		if i%8 == 3 {
			packedAgain[i].Source.MTime = 2
		}
	}
	packedAgain = append(slices.Delete(packedAgain, 10, 12), all[30:33]...)
	var old []Wanted
	for _, w := range all {
		if !slices.Contains(packedAgain, w) {
			old = append(old, w)
		}
	}
	return []fractionChange{
		{"made", nil, all[:12], all[:12]},
		{"grown", all[:packBytes], all, all},
		{"shrunk", all[:packBytes], all[:7], all},
		{"removed", all[:packBytes], nil, all},
		{"packed again", all[:packBytes], packedAgain, slices.Concat(packedAgain, old)},
	}
}

// eachFractionChange runs f with a store as it was before each change.
func eachFractionChange(t *testing.T, f func(t *testing.T, c fractionChange, start string)) {
	for _, c := range fractionChanges() {
		t.Run(c.name, func(t *testing.T) {
			start := filepath.Join(tempDir(t), "disk", "store")
			fractionStore(t, start)
			if c.before != nil {
				mustMaterialize(t, start, c.before, FractionOptions{Share: 0.5})
			}
			f(t, c, start)
		})
	}
}

// finishes checks that whatever happened to a change every result that is there is
// right, and that the change can be completed.
func (c fractionChange) finishes(t *testing.T, dir, what string) {
	t.Helper()
	if err := errors.Join(holds(dir, c.all, len(c.all), true), c.stays(dir)); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	mustMaterialize(t, dir, c.after, FractionOptions{Share: 0.7})
	mustHold(t, dir, c.all, len(c.after))
}

// stays checks that what was there before and is wanted still is there at any time.
func (c fractionChange) stays(dir string) error {
	s, err := Open(dir, Options{Logger: quiet})
	if err != nil {
		return err
	}
	defer s.Close()
	for _, w := range c.before {
		if slices.Contains(c.after, w) {
			if err := readResult(s.Fraction("ppm"), w); err != nil {
				return fmt.Errorf("%s is lost: %w", w.Path, err)
			}
		}
	}
	return nil
}

// Every operation in turn fails while a fraction is changed.
func TestEveryOperationOnAFractionFails(t *testing.T) {
	testenv.Slow(t)
	faults := []error{syscall.EIO, syscall.ENOSPC, faultfs.ErrShort}
	eachFractionChange(t, func(t *testing.T, c fractionChange, start string) {
		root := tempDir(t)
		first, failed := int(random(t).Uint64()%3), 0
		step := int64(1)
		if testenv.Race || testing.Short() {
			step = 5 // slow
		}
		for n := int64(1); ; n += step {
			dir := filepath.Join(root, fmt.Sprint(n))
			if err := os.CopyFS(dir, os.DirFS(start)); err != nil {
				t.Fatal(err)
			}
			fault := faults[(int(n/step)+first)%3]
			fsys := &faultfs.FS{Base: vfs.OS, Inject: faultfs.Nth(n, fault)}
			if n/step%2 == 0 { // a disk that is broken or full stays so
				fsys.Inject = faultfs.From(n, fault)
			}
			if _, _, err := materialize(dir, fsys, c.after, FractionOptions{Share: 0.7, Workers: 1}); err != nil {
				failed++
			}
			c.finishes(t, dir, fmt.Sprintf("operation %d, %v", n, fault))
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
			if fsys.Ops() < n {
				break
			}
		}
		if failed < 15/int(step) {
			t.Errorf("only %d faults hit", failed)
		}
		t.Logf("%d faults", failed)
	})
}

// The power fails before every operation in turn.
func TestEveryOperationOnAFractionCrashes(t *testing.T) {
	testenv.Slow(t)
	eachFractionChange(t, func(t *testing.T, c fractionChange, start string) {
		disk := filepath.Dir(start)
		crash, err := faultfs.NewCrashFS(disk)
		if err != nil {
			t.Fatal(err)
		}
		clones := 0
		clone := func() string {
			clones++
			dir := filepath.Join(filepath.Dir(disk), "clone")
			if err := errors.Join(os.RemoveAll(dir), crash.Clone(dir)); err != nil {
				t.Fatal(err)
			}
			return filepath.Join(dir, "store")
		}
		fsys := &faultfs.FS{Base: crash, Inject: func(op faultfs.Op) error {
			switch op.Kind {
			case "read", "stat", "open", "list":
			default:
				c.finishes(t, clone(), fmt.Sprintf("crash before %s %s", op.Kind, op.Name))
			}
			return nil
		}}
		if _, _, err := materialize(start, fsys, c.after, FractionOptions{Share: 0.7, Workers: 1}); err != nil {
			t.Fatal(err)
		}
		// What a run completed is durable as a whole.
		mustHold(t, clone(), c.all, len(c.after))
		if clones < 5 {
			t.Errorf("%d crashes", clones)
		}
		t.Logf("%d crashes", clones)
	})
}

// Readers, too, meet operations that fail: they miss results, and that is all.
func TestFractionReaderFaults(t *testing.T) {
	dir := tempDir(t)
	fractionStore(t, dir)
	all := wantedResults(12, 1)
	mustMaterialize(t, dir, all, FractionOptions{})
	for n := int64(1); ; n++ {
		fsys := &faultfs.FS{Base: vfs.OS, Inject: faultfs.Nth(n, syscall.EIO)}
		s, err := Open(dir, Options{FS: fsys, Logger: quiet})
		if err != nil {
			if !errors.Is(err, syscall.EIO) && !errors.Is(err, ErrCorrupt) {
				t.Errorf("operation %d: %v", n, err)
			}
			continue
		}
		if f := s.Fraction("ppm"); f != nil {
			for _, w := range all {
				if err := readResult(f, w); err != nil && !errors.Is(err, syscall.EIO) && !errors.Is(err, ErrNotFound) {
					t.Errorf("operation %d: %v", n, err)
				}
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if fsys.Ops() < n {
			break
		}
	}
}
