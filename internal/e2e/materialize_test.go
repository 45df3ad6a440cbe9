package e2e

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io/fs"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/internal/testmount"
	"github.com/pipefs/pipefs/store"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/codecs"
)

// samplesOf are the samples of a dataset, by name.
func samplesOf(t *testing.T, dataset string) []string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(dataset, func(name string, e fs.DirEntry, err error) error {
		if ext := filepath.Ext(name); err == nil && (ext == ".jpg" || ext == ".png") {
			names = append(names, strings.TrimPrefix(name, dataset+"/"))
		}
		return err
	})
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	return names
}

// fractionOf reads all results of the fraction ppm: the hash of each, by sample.
func fractionOf(t *testing.T, dir string, samples []string) map[string][32]byte {
	t.Helper()
	const spec = "ppm"
	s, err := store.Open(dir, store.Options{Logger: slog.New(slog.DiscardHandler)})
	testenv.Must(t, err)
	defer s.Close()
	found := map[string][32]byte{}
	f := s.Fraction(spec)
	if f == nil {
		return found
	}
	registry := codecs.New(transcode.Limits{}, codecs.OptionsOf(s.Stats().Bytes))
	view, err := registry.Parse(spec)
	testenv.Must(t, err)
	for _, name := range samples {
		sample, err := s.Lookup(name)
		testenv.Must(t, err)
		rep, err := f.Get(name, sample.Source, registry.Plan(view, sample.Info, transcode.Auto).Key())
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		testenv.Must(t, err)
		r, err := f.Reader(rep, 0)
		testenv.Must(t, err)
		data := make([]byte, r.Size())
		if _, err := r.ReadAt(data, 0); err != nil {
			t.Fatal(err)
		}
		found[name] = sha256.Sum256(data)
	}
	if f.Count() != int64(len(found)) {
		t.Errorf("%d results where %d are wanted", f.Count(), len(found))
	}
	return found
}

// mustBeWhole checks every byte of a store, as pipefs check does.
func mustBeWhole(t *testing.T, dir string) {
	t.Helper()
	problems, err := store.Check(context.Background(), dir, store.Options{Logger: slog.New(slog.DiscardHandler)}, nil)
	if err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
}

// exported is the hash of each file of the view ppm, made without a store.
func exported(t *testing.T, env []string, dataset string, samples []string) map[string][32]byte {
	t.Helper()
	dir, found := filepath.Join(t.TempDir(), "ppm"), map[string][32]byte{}
	testmount.Command(t, env, "export", dataset, "ppm", dir)
	for _, name := range samples {
		data, err := os.ReadFile(filepath.Join(dir, strings.TrimSuffix(name, filepath.Ext(name))+".ppm"))
		testenv.Must(t, err)
		found[name] = sha256.Sum256(data)
	}
	return found
}

// TestMaterialize grows, shrinks and removes a fraction. It is nested and even,
// and what it holds is what pipefs export makes.
func TestMaterialize(t *testing.T) {
	t.Parallel()
	env, dataset, dir := packed(t, "-samples", "88", "-width", "64", "-height", "48", "-png-every", "3")
	samples := samplesOf(t, dataset)
	want := exported(t, env, dataset, samples)
	before, share := map[string][32]byte{}, 0.0
	for _, next := range []string{"0.3", "0.3", "70%", "1", "1/5", "0", "0.5"} {
		said := testmount.Command(t, env, "materialize", dir, "ppm", "--fraction", next)
		now := fractionOf(t, dir, samples)
		was := share
		share = map[string]float64{"0.3": 0.3, "70%": 0.7, "1": 1, "1/5": 0.2, "0": 0, "0.5": 0.5}[next]
		classes, all := map[string]int{}, map[string]int{}
		for _, name := range samples {
			all[path.Dir(name)]++
			got, ok := now[name]
			if ok {
				classes[path.Dir(name)]++
				if got != want[name] {
					t.Errorf("fraction %s: %s is not what convert makes", next, name)
				}
			}
			_, had := before[name]
			if had && !ok && share >= was || ok && !had && share <= was {
				t.Errorf("from %v to %v: %s was there: %v, is there: %v", was, share, name, had, ok)
			}
		}
		for class, n := range all {
			if math.Abs(float64(classes[class])-share*float64(n)) >= 1 {
				t.Errorf("fraction %s: %d of %d of %s", next, classes[class], n, class)
			}
		}
		if math.Abs(float64(len(now))-share*float64(len(samples))) > 2 {
			t.Errorf("fraction %s: %d of %d", next, len(now), len(samples))
		}
		// evenly: no ten in a row are all or none
		for i := 0; i+10 <= len(samples) && share > 0.15 && share < 0.85; i++ {
			n := 0
			for _, name := range samples[i : i+10] {
				if _, ok := now[name]; ok {
					n++
				}
			}
			if math.Abs(float64(n)-10*share) > 3 {
				t.Errorf("fraction %s: %d of the ten from %s on", next, n, samples[i])
			}
		}
		listed := infoOf(t, env, dir).Fractions
		if share == 0 && len(listed) > 0 || share > 0 && (len(listed) != 1 || listed[0].View != "ppm" || listed[0].Fraction != share || listed[0].Results != len(now)) {
			t.Errorf("fraction %s: %s%+v", next, said, listed)
		}
		mustBeWhole(t, dir)
		before = now
	}
	// A file that changes, and one that is gone.
	testenv.Must(t, os.Remove(filepath.Join(dataset, samples[0])))
	changed := filepath.Join(dataset, samples[1])
	testenv.Must(t, os.Chtimes(changed, time.Now(), time.Unix(1_000_000_000, 0)))
	testmount.Command(t, env, "pack", dataset, dir)
	testmount.Command(t, env, "materialize", dir, "ppm", "--fraction", "1")
	now := fractionOf(t, dir, samples[1:])
	for _, name := range samples[1:] {
		if now[name] != want[name] {
			t.Errorf("packed again: %s differs", name)
		}
	}
}

// TestKilledMaterialize kills `pipefs materialize` at random moments while a mount
// of the store is read: no byte is ever wrong, and the last run completes it.
func TestKilledMaterialize(t *testing.T) {
	kills, limit := 12, time.Minute // store also fails and crashes at every single operation
	if testenv.Soak() {
		kills, limit = 60, time.Minute
	}
	dataset := testmount.Generate(t, "-samples", "160", "-width", "240", "-height", "180")
	env := testmount.Home(t)
	root := t.TempDir()
	dir := filepath.Join(root, "store")
	testmount.Command(t, env, "pack", dataset, dir)
	samples := samplesOf(t, dataset)
	want := exported(t, env, dataset, samples)
	started := time.Now()
	testmount.Command(t, env, "materialize", dir, "ppm")
	whole := time.Since(started)
	complete := sizeOf(t, filepath.Join(dir, "fractions"))
	seed := testenv.Seed(t)
	t.Logf("an undisturbed run takes %v and writes %d bytes", whole, complete)
	r := rand.New(rand.NewPCG(seed, 0))

	var reads atomic.Int64
	hit, midway := 0, 0
	began := time.Now()
	// On a busy machine the limit waits for half of them.
	for hit < kills && (hit < kills/2 || time.Since(began) < limit) {
		stop := readContinuously(t, env, dir, samples, want, &reads)
		for range 10 {
			before := sizeOf(t, filepath.Join(dir, "fractions"))
			fraction := "1"
			if before > complete/2 { // make room, so that there is something to be done
				if fraction = "0.1"; r.IntN(2) == 0 {
					fraction = "0.3"
				}
			}
			cmd := exec.Command(testmount.Binary(t), "materialize", dir, "ppm", "--fraction", fraction)
			cmd.Env = env
			testenv.Must(t, cmd.Start())
			time.Sleep(time.Duration(r.Int64N(int64(whole))))
			_ = cmd.Process.Kill()
			if cmd.Wait() != nil {
				hit++
				if after := sizeOf(t, filepath.Join(dir, "fractions")); after != before && after != complete {
					midway++
				}
			}
			for name, h := range fractionOf(t, dir, samples) {
				if h != want[name] {
					t.Errorf("after %d kills: %s is wrong", hit, name)
				}
			}
		}
		stop()
	}
	t.Logf("%d kills, %d of them mid-way, in %v; %d files were read meanwhile", hit, midway, time.Since(began), reads.Load())
	if hit < kills/2 || midway < hit/3 {
		t.Errorf("only %d kills, %d of them mid-way", hit, midway)
	}
	testenv.Proved(t, "writers", midway)
	testmount.Command(t, env, "materialize", dir, "ppm", "--fraction", "1")
	mustBeWhole(t, dir)
	got := fractionOf(t, dir, samples)
	for _, name := range samples {
		if got[name] != want[name] {
			t.Errorf("in the end %s is wrong", name)
		}
	}
	mnt := testmount.Mount(t, env, dir)
	for name, h := range want {
		data, err := os.ReadFile(filepath.Join(mnt, "ppm", name))
		if err != nil || sha256.Sum256(data) != h {
			t.Errorf("mounted: %s, %v", name, err)
		}
	}
}

func sizeOf(t *testing.T, dir string) int64 {
	t.Helper()
	var size int64
	err := filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			var info fs.FileInfo
			if info, err = e.Info(); err == nil {
				size += info.Size()
			}
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	testenv.Must(t, err)
	return size
}

// readContinuously mounts a store and reads a view again and again, until stopped.
func readContinuously(t *testing.T, env []string, dir string, samples []string, want map[string][32]byte, reads *atomic.Int64) (stop func()) {
	t.Helper()
	mnt, unmount := testmount.MountOnce(t, env, dir, "--cache", "daemon", "--cache-bytes", "10M")
	var ended atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; !ended.Load(); i++ {
			name := samples[i%len(samples)]
			data, err := os.ReadFile(filepath.Join(mnt, "ppm", name))
			if err != nil || sha256.Sum256(data) != want[name] {
				t.Errorf("read while the store is written: %s: %d bytes, %v", name, len(data), err)
				return
			}
			reads.Add(1)
			time.Sleep(3 * time.Millisecond) // the others need the processor, too
		}
	}()
	return func() {
		ended.Store(true)
		<-done
		unmount()
	}
}

// run runs the binary and returns its exit code and what it said.
func run(t *testing.T, env []string, args ...string) (int, string) {
	t.Helper()
	cmd := exec.Command(testmount.Binary(t), args...)
	cmd.Env = env
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

// TestInterruptedMaterialize: Ctrl-C ends it in good order; another one meanwhile is
// refused.
func TestInterruptedMaterialize(t *testing.T) {
	env, _, dir := packed(t, "-samples", "60", "-width", "300", "-height", "225")
	cmd := exec.Command(testmount.Binary(t), "materialize", dir, "resize200-png", "--workers", "1")
	cmd.Env = env
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	testenv.Must(t, cmd.Start())
	part := filepath.Join(dir, "fractions", "resize200-png", "000001.pack.part")
	testenv.EventuallyIs(t, "something is written", func() bool {
		st, err := os.Stat(part)
		return err == nil && st.Size() > 1000
	})
	if code, said := run(t, env, "materialize", dir, "ppm"); code != 2 || !strings.Contains(said, "another pipefs pack or materialize writes to "+dir) {
		t.Errorf("meanwhile: %d, %s", code, said)
	}
	_ = cmd.Process.Signal(syscall.SIGINT)
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 8 || !regexp.MustCompile(`interrupted after [1-9][0-9]* results?; what was made is kept`).MatchString(stderr.String()) {
		t.Errorf("%d, %s", code, stderr.String())
	}
	said := testmount.Command(t, env, "materialize", dir, "resize200-png")
	if !regexp.MustCompile(`(?m)^made [1-9][0-9]* results, kept [1-9][0-9]* that were there`).MatchString(said) {
		t.Error(said)
	}
	mustBeWhole(t, dir)
}

// TestMaterializeWithoutRoom: it is refused before anything is made, and what it
// says would fit does.
func TestMaterializeWithoutRoom(t *testing.T) {
	t.Parallel()
	dataset := testmount.Generate(t, "-samples", "60", "-width", "500", "-height", "375")
	env := testmount.Home(t)
	disk := t.TempDir()
	if err := unix.Mount("tmpfs", disk, "tmpfs", 0, "size=90m"); err != nil {
		t.Fatal("a small disk is a tmpfs, which only root can mount: ", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(disk, unix.MNT_DETACH) })
	dir := filepath.Join(disk, "store")
	testmount.Command(t, env, "pack", dataset, dir)
	for _, test := range []struct {
		taken int // of the disk, by something else; MiB
		args  []string
	}{{60, []string{"ppm"}}, {79, []string{"l3"}}, {0, []string{"ppm", "--max-bytes", "5MB"}}} {
		args := test.args
		testenv.Must(t, os.WriteFile(filepath.Join(disk, "other"), make([]byte, test.taken<<20), 0o644))
		code, said := run(t, env, append([]string{"materialize", dir}, args...)...)
		fits := regexp.MustCompile(`(--fraction [0-9.]+) would fit`).FindStringSubmatch(said)
		if code != 2 || fits == nil || !strings.Contains(said, "(100%) takes ") {
			t.Fatalf("%v: %d, %s", args, code, said)
		}
		if _, err := os.Stat(filepath.Join(dir, "fractions")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%v: refused, and yet: %v", args, err)
		}
		t.Log(said)
		said = testmount.Command(t, env, append(append([]string{"materialize", dir}, args...), strings.Fields(fits[1])...)...)
		t.Log(said)
		mustBeWhole(t, dir)
		testmount.Command(t, env, "materialize", dir, args[0], "--fraction", "0")
	}
}
