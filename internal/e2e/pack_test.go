package e2e

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/internal/testmount"
)

// TestKilledPack kills `pipefs pack` at random moments and packs again: what
// the store serves in the end is what one undisturbed run would have made.
func TestKilledPack(t *testing.T) {
	rounds, kills := 2, 5
	if testenv.Soak() {
		rounds, kills = 10, 10
	}
	dataset := testmount.Generate(t, "-samples", "80", "-width", "500", "-height", "375")
	env := testmount.Home(t)
	calm := filepath.Join(t.TempDir(), "calm")
	testmount.Binary(t) // building it is not part of what is timed
	started := time.Now()
	testmount.Command(t, env, "pack", dataset, calm)
	whole := time.Since(started)
	views := []string{"original", "scan1", "scan5", "scan10"}
	want := map[string]map[string][32]byte{}
	mnt := mountAlone(t, env, calm, dataset)
	for _, v := range views {
		want[v] = hashes(t, filepath.Join(mnt, v))
	}
	seed := testenv.Seed(t)
	t.Logf("an undisturbed pack takes %v", whole)
	r := rand.New(rand.NewPCG(seed, 0))
	for range rounds {
		dir := filepath.Join(t.TempDir(), "killed")
		hit := 0
		for attempt := 0; hit < kills; attempt++ {
			if attempt == 10*kills {
				t.Fatalf("only %d of %d kills hit a running pack", hit, attempt)
			}
			cmd := exec.Command(testmount.Binary(t), "pack", dataset, dir)
			cmd.Env = env
			testenv.Must(t, cmd.Start())
			time.Sleep(time.Duration(r.Int64N(int64(whole))))
			_ = cmd.Process.Kill()
			if cmd.Wait() != nil {
				hit++
			} else if err := os.RemoveAll(dir); err != nil { // it was done: nothing is left to interrupt
				t.Fatal(err)
			}
		}
		testmount.Command(t, env, "pack", dataset, dir)
		testenv.Must(t, removeIndex(dir, r))
		if info := infoOf(t, env, dir); info.Samples != 80 || info.OtherFiles != 1 || len(info.Faults) != 0 {
			t.Errorf("info: %+v", info)
		}
		mnt := mountAlone(t, env, dir, dataset)
		for _, v := range views {
			if diff := cmp.Diff(want[v], hashes(t, filepath.Join(mnt, v))); diff != "" {
				t.Errorf("%s (-undisturbed +killed):\n%s", v, diff)
			}
		}
	}
}

// mountAlone mounts a store that does not find its dataset where it was.
func mountAlone(t *testing.T, env []string, store, dataset string) string {
	t.Helper()
	away := dataset + ".away"
	testenv.Must(t, os.Rename(dataset, away))
	mnt := testmount.Mount(t, env, store)
	testenv.Must(t, os.Rename(away, dataset))
	return mnt
}

// storeInfo is what `pipefs info --json` tells of a store.
type storeInfo struct {
	Samples    int64
	OtherFiles int64 `json:"other_files"`
	Faults     []any
	Store      struct{ Packs int }
	Originals  struct {
		Rebuilt, Kept, Dropped struct{ Samples int }
	}
	Fractions []struct {
		View     string
		Fraction float64
		Results  int
	}
}

func infoOf(t *testing.T, env []string, store string) (info storeInfo) {
	t.Helper()
	testenv.Must(t, json.Unmarshal([]byte(testmount.Command(t, env, "info", "--json", store)), &info))
	return info
}

// removeIndex removes the index every other time: it has to be rebuilt.
func removeIndex(store string, r *rand.Rand) error {
	if r.IntN(2) == 0 {
		return nil
	}
	var err error
	for _, name := range []string{"CURRENT", "index", "segments"} {
		err = errors.Join(err, os.RemoveAll(filepath.Join(store, name)))
	}
	return err
}

// TestTwoMountsAndAPack has two mounts of a store and a pack of it at once:
// nobody is refused, and what is packed meanwhile is there at the next mount.
func TestTwoMountsAndAPack(t *testing.T) {
	t.Parallel()
	env, dataset, store := packed(t, "-samples", "24")
	first, second := testmount.Mount(t, env, store), testmount.Mount(t, env, store)
	added := filepath.Join(dataset, "class00", "zz_added.json")
	testenv.Must(t, os.WriteFile(added, []byte("{}"), 0o644))
	var work sync.WaitGroup
	work.Go(func() {
		cmd := exec.Command(testmount.Binary(t), "pack", dataset, store)
		cmd.Env = env
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("pack: %v\n%s", err, out)
		}
	})
	var got [2]map[string][32]byte
	for i, mnt := range []string{first, second} {
		work.Go(func() { got[i] = hashes(t, filepath.Join(mnt, "scan5")) })
	}
	work.Wait()
	if diff := cmp.Diff(got[0], got[1]); diff != "" || len(got[0]) != 25 {
		t.Errorf("%d files; two mounts of one store differ:\n%s", len(got[0]), diff)
	}
	third := testmount.Mount(t, env, store)
	if data, err := os.ReadFile(filepath.Join(third, "bmp", "class00", "zz_added.json")); err != nil || string(data) != "{}" {
		t.Errorf("what was packed meanwhile: %q, %v", data, err)
	}
}

// TestRecords packs samples together, in path and in shuffled order: every view
// is the same as that of samples packed one by one, and packing again with the
// same seed makes the same packs.
func TestRecords(t *testing.T) {
	t.Parallel()
	dataset := testmount.Generate(t, "-samples", "20", "-width", "200", "-height", "150")
	env := testmount.Home(t)
	pack := func(args ...string) string {
		dir := filepath.Join(t.TempDir(), "store")
		testmount.Command(t, env, append([]string{"pack", dataset, dir}, args...)...)
		return dir
	}
	read := func(store string) map[string][32]byte {
		mnt := testmount.Mount(t, env, store)
		all := hashes(t, filepath.Join(mnt, "scan1"))
		for _, v := range []string{"scan5", "scan10", "bmp"} {
			for name, h := range hashes(t, filepath.Join(mnt, v)) {
				all[v+"/"+name] = h
			}
		}
		return all
	}
	want := read(pack())
	shuffled := []string{"--record-images", "8", "--order", "shuffle", "--seed", "3"}
	for name, args := range map[string][]string{"by path": {"--record-images", "8"}, "shuffled": shuffled} {
		if diff := cmp.Diff(want, read(pack(args...))); diff != "" {
			t.Errorf("8 samples a record, %s (-one by one +records):\n%s", name, diff)
		}
	}
	first, second := pack(shuffled...), pack(append(shuffled, "--workers", "1")...)
	if diff := cmp.Diff(hashes(t, filepath.Join(first, "packs")), hashes(t, filepath.Join(second, "packs"))); diff != "" {
		t.Errorf("the same packing twice (-first +second):\n%s", diff)
	}
}
