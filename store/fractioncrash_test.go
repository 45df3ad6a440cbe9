package store

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
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
			packedAgain[i].Source = ident(inode(packedAgain[i].Source), 0, 2)
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
	t.Parallel()
	step := int64(1)
	if testenv.Race {
		step = 5 // slow
	}
	eachFractionChange(t, func(t *testing.T, c fractionChange, start string) {
		failed := eachFault(t, start, step, func(dir string, fsys *faultfs.FS) error {
			_, _, err := materialize(dir, fsys, c.after, FractionOptions{Share: 0.7, Workers: 1})
			return err
		}, func(dir, what string, _, err error) {
			if err == nil {
				mustHold(t, dir, c.all, len(c.after))
			}
			c.finishes(t, dir, what)
		})
		if failed < 15/int(step) {
			t.Errorf("only %d faults hit", failed)
		}
	})
}

// The power fails before every operation in turn.
func TestEveryOperationOnAFractionCrashes(t *testing.T) {
	testenv.Slow(t)
	t.Parallel()
	eachFractionChange(t, func(t *testing.T, c fractionChange, start string) {
		crashes, end := eachCrash(t, filepath.Dir(start), func(fsys vfs.FS) error {
			_, _, err := materialize(start, fsys, c.after, FractionOptions{Share: 0.7, Workers: 1})
			return err
		}, func(disk, what string) { c.finishes(t, filepath.Join(disk, "store"), what) })
		// What a run completed is durable as a whole.
		mustHold(t, filepath.Join(end, "store"), c.all, len(c.after))
		if crashes < 5 {
			t.Errorf("%d crashes", crashes)
		}
	})
}
