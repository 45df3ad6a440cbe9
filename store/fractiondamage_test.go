package store

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	sorted "github.com/pipefs/pipefs/internal/index"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/store/vfs"
)

// TestFractionWhileRead: readers of a store that is open see right bytes or are
// told that they have to look elsewhere.
func TestFractionWhileRead(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	fractionStore(t, dir)
	all := wantedResults(60, 1)
	mustMaterialize(t, dir, all[:40], FractionOptions{})
	var stop atomic.Bool
	var wg sync.WaitGroup
	var read, lost atomic.Int64
	for g := range 4 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(g), 1))
			for !stop.Load() {
				s, err := Open(dir, Options{Logger: quiet, MaxOpenPacks: 1 + g})
				if err != nil {
					t.Error(err)
					return
				}
				f := s.Fraction("ppm")
				for range 300 {
					if f == nil || stop.Load() {
						break
					}
					switch err := readResult(f, all[r.IntN(len(all))]); {
					case err == nil:
						read.Add(1)
					case errors.Is(err, ErrNotFound), errors.Is(err, fs.ErrNotExist), errors.Is(err, ErrCorrupt):
						lost.Add(1)
					default:
						t.Error(err)
					}
				}
				_ = s.Close()
			}
		})
	}
	r := random(t)
	rounds := 30
	if testing.Short() || testenv.Race {
		rounds = 8
	}
	for range rounds {
		mustMaterialize(t, dir, all[:r.IntN(len(all)+1)], FractionOptions{})
	}
	stop.Store(true)
	wg.Wait()
	if read.Load() < 100 {
		t.Errorf("only %d results were read", read.Load())
	}
	t.Logf("%d read, %d to be had elsewhere", read.Load(), lost.Load())
}

// TestFractionHeld: a pack that is removed while it is open goes on being read; one
// whose number another pack took is told from it.
func TestFractionHeld(t *testing.T) {
	dir := tempDir(t)
	fractionStore(t, dir)
	all := wantedResults(30, 1)
	mustMaterialize(t, dir, all, FractionOptions{})
	open, shut := mustOpen(t, dir), mustOpen(t, dir)
	for _, w := range all {
		testenv.Must(t, readResult(open.Fraction("ppm"), w))
	}
	mustMaterialize(t, dir, nil, FractionOptions{})
	other := wantedResults(30, 2)
	for i := range other {
		other[i].Path += "x"
	}
	mustMaterialize(t, dir, other, FractionOptions{})
	for _, w := range all {
		if err := readResult(open.Fraction("ppm"), w); err != nil {
			t.Errorf("held: %v", err)
		}
		if err := readResult(shut.Fraction("ppm"), w); !errors.Is(err, ErrNotFound) {
			t.Errorf("of another pack: %v", err)
		}
		// What is shown as materialized goes on being shown so.
		if f := shut.Fraction("ppm"); f.Has(w.Path, w.Source, w.Key) || !f.Held(w.Path, w.Source, w.Key) || !shut.Holds(&Sample{Path: w.Path, Source: w.Source}, w.Key) {
			t.Errorf("%s: there after it was lost, or not held before", w.Path)
		}
	}
	s := &Sample{Path: other[0].Path, Source: other[0].Source, Representations: []Representation{{Key: "packed"}}}
	if shut.Fraction("ppm").Held(s.Path, s.Source, other[0].Key) || shut.Holds(s, other[0].Key) || !shut.Holds(s, "packed") {
		t.Errorf("%s was not there when the store was opened", s.Path)
	}
}

// TestFractionDamage: a flipped bit anywhere costs at most what it hits, check
// names the pack, and making it again cures it.
func TestFractionDamage(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	fractionStore(t, dir)
	all := wantedResults(30, 1)
	mustMaterialize(t, dir, all, FractionOptions{Share: 0.5})
	testenv.Must(t, os.Mkdir(filepath.Join(dir, fractionsName, ".other"), 0o777))
	r := random(t)
	rounds := 60
	if testenv.Race {
		rounds = 15
	}
	for round := range rounds {
		names := slices.Sorted(maps.Keys(fractionFiles(t, dir)))
		name := filepath.Join(dir, fractionsName, "ppm", append(names, fractionName)[r.IntN(len(names)+1)])
		whole, err := os.ReadFile(name)
		testenv.Must(t, err)
		at := r.IntN(len(whole))
		switch how := r.IntN(4); how {
		case 0: // small structures are hit, too
			at = max(0, len(whole)-1-r.IntN(300))
			fallthrough
		case 1:
			whole[at] ^= 1 << r.IntN(8)
			write(t, name, whole)
		case 2:
			write(t, name, whole[:at])
		case 3:
			at = 0
			testenv.Must(t, os.Remove(name))
		}
		if err := holds(dir, all, 30, true); err != nil && !errors.Is(err, ErrCorrupt) {
			t.Fatalf("%s byte %d: %v", name, at, err)
		}
		problems, err := Check(context.Background(), dir, Options{Logger: quiet}, nil)
		_, statErr := os.Stat(name)
		missingPack := errors.Is(statErr, fs.ErrNotExist) && filepath.Base(name) != fractionName
		if err != nil || len(problems) == 0 && !missingPack {
			t.Fatalf("%s byte %d: check: %v, %v", name, at, problems, err)
		}
		for _, p := range problems {
			share := map[bool]string{true: "with its --fraction", false: "--fraction 0.5"}[filepath.Base(name) == fractionName]
			if !strings.HasPrefix(p.Name, "fractions/ppm") || !strings.Contains(p.String(), "pipefs materialize --verify "+dir+" ppm "+share+" makes it again") {
				t.Errorf("round %d: %v", round, p)
			}
		}
		if m, _ := mustMaterialize(t, dir, all, FractionOptions{Share: 0.5, Verify: true}); m.made.Load() > 12 {
			t.Errorf("%s byte %d: %d made again", name, at, m.made.Load())
		}
		mustHold(t, dir, all, 30)
	}
}

// TestFractionOfAnotherVersion is neither used nor written to.
func TestFractionOfAnotherVersion(t *testing.T) {
	dir := tempDir(t)
	fractionStore(t, dir)
	all := wantedResults(5, 1)
	mustMaterialize(t, dir, all, FractionOptions{})
	before := fractionFiles(t, dir)
	for _, f := range []fractionFile{{"other", fractionVersion, "ppm", 1}, {fractionMagic, fractionVersion, "pgm", 1}, {fractionMagic, fractionVersion + 1, "ppm", 1}} {
		text, err := sorted.Seal(f)
		testenv.Must(t, err)
		write(t, filepath.Join(dir, fractionsName, "ppm", fractionName), text)
		if s := mustOpen(t, dir); len(s.Fractions()) > 0 {
			t.Errorf("it is used: %+v", f)
		}
	}
	if _, _, err := materialize(dir, nil, wantedResults(3, 2), FractionOptions{}); !errors.Is(err, ErrVersion) {
		t.Errorf("written to: %v", err)
	}
	if !samePacks(before, fractionFiles(t, dir)) {
		t.Error("it was changed")
	}
}

// A disk that is full can still be made room on.
func TestFractionShrinksOnAFullDisk(t *testing.T) {
	dir := tempDir(t)
	fractionStore(t, dir)
	all := wantedResults(60, 1)
	mustMaterialize(t, dir, all, FractionOptions{})
	_, report, err := materialize(dir, fullDisk{vfs.OS}, all[:7], FractionOptions{})
	if !errors.Is(err, syscall.ENOSPC) || report.Dropped < 40 {
		t.Errorf("%+v, %v", report, err)
	}
	mustMaterialize(t, dir, all[:7], FractionOptions{})
	mustHold(t, dir, all, 7)
}

type fullDisk struct{ vfs.FS }

func (fullDisk) Create(name string) (vfs.File, error) {
	return nil, &fs.PathError{Op: "create", Path: name, Err: syscall.ENOSPC}
}
