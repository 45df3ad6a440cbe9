package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/store/vfs"
	"github.com/pipefs/pipefs/transcode"
)

// fractionPackSize is small, so that a few results fill several packs.
const fractionPackSize = 200_000

// wantedResults are n results in the order in which they are kept. Those of
// another version are of files that changed.
func wantedResults(n, version int) []Wanted {
	wanted := make([]Wanted, n)
	for i := range wanted {
		wanted[i] = Wanted{
			Path: fmt.Sprintf("class%d/%04d.jpg", i%3, i), Source: ident(uint64(i+1), 0, int64(version)),
			Key: "decode-ppm@1,2", Weight: 70_000,
		}
	}
	return wanted
}

func resultOf(w Wanted) []byte {
	r := rand.New(rand.NewPCG(inode(w.Source), uint64(mtime(w.Source))+uint64(len(w.Key))<<32))
	return noise(r, r.IntN(90_000))
}

// fakeMaker makes results, and counts them.
type fakeMaker struct {
	made, released atomic.Int64
	fail           func(w Wanted) error
}

func (m *fakeMaker) Make(ctx context.Context, w Wanted) (Made, error) {
	if m.fail != nil {
		if err := m.fail(w); err != nil {
			return Made{}, err
		}
	}
	m.made.Add(1)
	return Made{Info: jpegInfo, Split: transcode.Split{Data: resultOf(w)}, Release: func() { m.released.Add(1) }}, ctx.Err()
}

// fractionStore is a store to keep fractions in.
func fractionStore(t testing.TB, dir string) {
	mustPack(t, dir, generate(rand.New(rand.NewPCG(1, 1)), 4, 500), PackOptions{})
}

// materialize opens a store and brings its fraction up to date.
func materialize(dir string, fsys vfs.FS, wanted []Wanted, o FractionOptions) (*fakeMaker, FractionReport, error) {
	m := &fakeMaker{}
	if o.PackBytes == 0 {
		o.PackBytes = fractionPackSize
	}
	if o.Warn == nil {
		o.Warn = func(string, error) {}
	}
	s, err := Open(dir, Options{FS: fsys, Logger: quiet})
	if err != nil {
		return m, FractionReport{}, err
	}
	report, err := s.Materialize(context.Background(), "ppm", wanted, m, o)
	return m, report, errors.Join(err, s.Close())
}

func mustMaterialize(t testing.TB, dir string, wanted []Wanted, o FractionOptions) (*fakeMaker, FractionReport) {
	t.Helper()
	var plan FractionPlan
	var last FractionProgress
	o.Begin = func(p FractionPlan) error { plan = p; return nil }
	o.Progress = func(p FractionProgress) { last = p }
	m, report, err := materialize(dir, nil, wanted, o)
	if err != nil {
		t.Fatalf("materialize: %v", err)
	}
	if int64(len(plan.Make)) != report.Made+report.Failed || plan.Copy != report.Copied || plan.Copy > report.Kept ||
		(plan.Copy > 0) != (plan.CopyBytes > 0) || plan.CopyBytes > min(plan.KeepBytes, 2*fractionPackSize) || (report.Kept > 0) != (plan.KeepBytes > 0) {
		t.Errorf("the plan is to make %d, %+v, and the report %+v", len(plan.Make), plan, report)
	}
	if last.Bytes = report.Bytes; last != report.FractionProgress {
		t.Errorf("the last progress is %+v, and the report %+v", last, report)
	}
	if m.made.Load() != m.released.Load() {
		t.Errorf("%d results made, %d released", m.made.Load(), m.released.Load())
	}
	return m, report
}

// readResult reads one result; the error is the store's, or says that it differs.
func readResult(f *Fraction, w Wanted) error {
	rep, err := f.Get(w.Path, w.Source, w.Key)
	if err != nil {
		return err
	}
	got, err := readLevel(f.Reader, rep, 0)
	if err != nil {
		return err
	}
	if !bytes.Equal(got, resultOf(w)) {
		return fmt.Errorf("%s: wrong bytes", w.Path)
	}
	return nil
}

var errHolds = errors.New("it is there")

// holds checks that a fraction holds exactly the first n of the results, or with
// some of them at most these.
func holds(dir string, all []Wanted, n int, some bool) error {
	s, err := Open(dir, Options{Logger: quiet})
	if err != nil {
		return err
	}
	defer s.Close()
	f := s.Fraction("ppm")
	if f == nil {
		if n == 0 || some {
			return nil
		}
		return errors.New("there is no fraction")
	}
	if !some && f.Count() != int64(n) {
		return fmt.Errorf("%d results, want %d", f.Count(), n)
	}
	for i, w := range all {
		err := readResult(f, w)
		if err == nil && i >= n {
			err = errHolds
		}
		if errors.Is(err, ErrNotFound) && (i >= n || some) {
			err = nil
		}
		if err != nil {
			return fmt.Errorf("result %d of %d: %w", i, n, err)
		}
	}
	return nil
}

// mustHold also checks the store.
func mustHold(t testing.TB, dir string, all []Wanted, n int) {
	t.Helper()
	testenv.Must(t, holds(dir, all, n, false))
	problems, err := Check(context.Background(), dir, Options{Logger: quiet}, nil)
	if err != nil || len(problems) > 0 {
		t.Fatalf("check: %v, %v", problems, err)
	}
}

// fractionFiles returns the content of a fraction's packs by name.
func fractionFiles(t testing.TB, dir string) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	names, err := filepath.Glob(filepath.Join(dir, fractionsName, "ppm", "*.pack*"))
	testenv.Must(t, err)
	for _, name := range names {
		b, err := os.ReadFile(name)
		testenv.Must(t, err)
		out[filepath.Base(name)] = b
	}
	return out
}

func TestFraction(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(tempDir(t), "store")
	fractionStore(t, dir)
	all := wantedResults(60, 1)
	before := map[string][]byte{}
	for _, n := range []int{20, 20, 45, 60, 33, 7, 8, 0, 0, 12} {
		m, report := mustMaterialize(t, dir, all[:n], FractionOptions{Share: float64(n) / 60})
		mustHold(t, dir, all, n)
		after := fractionFiles(t, dir)
		fresh, gone := 0, 0
		for name, b := range after {
			if was, ok := before[name]; !ok {
				fresh++
			} else if !bytes.Equal(was, b) {
				t.Errorf("%d results: %s was changed", n, name)
			}
		}
		for name := range before {
			if after[name] == nil {
				gone++
			}
		}
		made := int(m.made.Load())
		t.Logf("%d results: %d made, %d packs written, %d removed: %+v", n, made, fresh, gone, report)
		switch {
		case report.Made != int64(made) || n > 0 && report.Kept+report.Made != int64(n):
			t.Errorf("%d results: %+v", n, report)
		case made > 0 && (gone > 0 || report.Dropped > 0):
			t.Errorf("growing to %d removes packs: %+v", n, report)
		case made == 0 && fresh > 1:
			t.Errorf("shrinking to %d writes %d packs", n, fresh)
		}
		s := mustOpen(t, dir)
		if f := s.Fraction("ppm"); n > 0 && (f.Share() != float64(n)/60 || f.Spec() != "ppm" || f.Bytes() < 10_000 || len(s.Fractions()) != 1) {
			t.Errorf("%d results: share %v, %d bytes", n, f.Share(), f.Bytes())
		}
		before = after
	}
	mustMaterialize(t, dir, nil, FractionOptions{})
	if _, err := os.Stat(filepath.Join(dir, fractionsName)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("nothing is left: %v", err)
	}
}

// TestFractionOrder: however many workers, the same packs.
func TestFractionOrder(t *testing.T) {
	all := wantedResults(40, 1)
	var want map[string][]byte
	for _, workers := range []int{1, 2, 16} {
		dir := tempDir(t)
		fractionStore(t, dir)
		mustMaterialize(t, dir, all, FractionOptions{Workers: workers, MemoryBytes: 100_000})
		got := fractionFiles(t, dir)
		if want == nil {
			want = got
		}
		if !samePacks(want, got) {
			t.Errorf("%d workers make other packs", workers)
		}
	}
}

// TestFractionStale: of files that changed, and of another implementation, nothing
// is used and nothing stays.
func TestFractionStale(t *testing.T) {
	dir := tempDir(t)
	fractionStore(t, dir)
	all := wantedResults(40, 1)
	mustMaterialize(t, dir, all, FractionOptions{})
	now := slices.Clone(all)
	for i := range now {
		switch i % 10 {
		case 3:
			now[i].Source = ident(inode(now[i].Source), 0, 2)
		case 7:
			now[i].Key = "decode-ppm@1,3"
		}
	}
	now = slices.Delete(now, 20, 25)
	m, report := mustMaterialize(t, dir, now, FractionOptions{})
	if m.made.Load() != 7 || report.Dropped != 12 {
		t.Errorf("%d made, %+v", m.made.Load(), report)
	}
	mustHold(t, dir, now, len(now))
	if err := holds(dir, all, 40, false); err == nil {
		t.Error("what is stale is there")
	}
}

// TestFractionLeavesOut: a sample that cannot be made is told, left out, and tried
// again the next time.
func TestFractionLeavesOut(t *testing.T) {
	dir := tempDir(t)
	fractionStore(t, dir)
	all := wantedResults(20, 1)
	s := mustOpen(t, dir)
	var told []string
	m := &fakeMaker{fail: func(w Wanted) error {
		switch w.Path {
		case all[4].Path:
			return errors.New("no")
		case all[9].Path:
			panic("a maker's panic")
		}
		return nil
	}}
	report, err := s.Materialize(context.Background(), "ppm", all, m, FractionOptions{Warn: func(path string, err error) { told = append(told, path) }})
	if err != nil || report.Failed != 2 || report.Made != 18 || !slices.Equal(told, []string{all[4].Path, all[9].Path}) {
		t.Errorf("%+v, %v, %v", report, told, err)
	}
	if m, _ := mustMaterialize(t, dir, all, FractionOptions{}); m.made.Load() != 2 {
		t.Errorf("%d made", m.made.Load())
	}
	mustHold(t, dir, all, 20)
}

// TestFractionInterrupted: what was made before a cancel is there for the next run.
func TestFractionInterrupted(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	fractionStore(t, dir)
	all := wantedResults(60, 1)
	made, salvaged := int64(0), int64(0)
	for rounds := 0; ; rounds++ {
		s := mustOpen(t, dir)
		ctx, cancel := context.WithCancel(context.Background())
		before := made
		report, err := s.Materialize(ctx, "ppm", all, &fakeMaker{}, FractionOptions{PackBytes: fractionPackSize, Progress: func(p FractionProgress) {
			if made++; p.Made == 7 {
				cancel()
			}
		}})
		cancel()
		salvaged += report.Salvaged
		if err == nil {
			if rounds < 5 || salvaged == 0 {
				t.Errorf("%d rounds, %d salvaged, %+v", rounds, salvaged, report)
			}
			break
		}
		if !errors.Is(err, context.Canceled) || made-before < 7 || made-before > 12 {
			t.Fatalf("%d made, %v", made-before, err)
		}
		testenv.Must(t, holds(dir, all, 60, true))
	}
	if made != 60 {
		t.Errorf("%d made in all", made)
	}
	mustHold(t, dir, all, 60)
}

func TestFractionRefuses(t *testing.T) {
	dir := tempDir(t)
	src := generate(random(t), 4, 500)
	mustPack(t, dir, src, PackOptions{})
	all := wantedResults(3, 1)
	s := mustOpen(t, dir)
	try := func(spec string, o FractionOptions) error {
		_, err := s.Materialize(context.Background(), spec, all, &fakeMaker{}, o)
		return err
	}
	for _, spec := range []string{"", ".", "..", "a/b", "a\x00b", ".hidden", strings.Repeat("x", 256)} {
		if err := try(spec, FractionOptions{}); err == nil {
			t.Errorf("%q was made", spec)
		}
		if err := s.RemoveFraction(spec); err == nil || errors.Is(err, ErrNotFound) {
			t.Errorf("%q was looked for: %v", spec, err)
		}
	}
	if err := s.RemoveFraction(strings.Repeat("x", 255)); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
	refused := errors.New("too large")
	err := try("ppm", FractionOptions{Begin: func(p FractionPlan) error {
		if len(p.Make) != 3 {
			t.Errorf("%+v", p)
		}
		return refused
	}})
	if !errors.Is(err, refused) {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(dir, fractionsName)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("refused, and yet: %v", err)
	}
	lock, err := vfs.OS.Lock(filepath.Join(dir, lockName))
	testenv.Must(t, err)
	if err := try("ppm", FractionOptions{}); !errors.Is(err, ErrLocked) {
		t.Errorf("while somebody writes: %v", err)
	}
	_ = lock.Close()
	if err := s.RemoveFraction("ppm"); !errors.Is(err, ErrNotFound) {
		t.Errorf("none to remove: %v", err)
	}
	src.put("more.jpg", []byte("more"))
	mustPack(t, dir, src, PackOptions{})
	if err := try("ppm", FractionOptions{}); !errors.Is(err, ErrChanged) {
		t.Errorf("packed again: %v", err)
	}
}
