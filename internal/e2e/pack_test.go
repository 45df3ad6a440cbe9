package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/internal/testmount"
)

// TestKilledCommands kills the commands that write a store at random moments: pack, materialize, compact, gc, the shards of a
// plan, and commit. After each kill the store has each file as the last command that was not killed left it, or as it is now.
// In the end no command has left anything that check names.
func TestKilledCommands(t *testing.T) {
	t.Parallel()
	kills := 4
	if testenv.Soak() {
		kills = 60
	}
	dataset := testmount.Generate(t, "-samples", "30", "-width", "200", "-height", "150")
	env, store := testmount.Home(t), filepath.Join(t.TempDir(), "store")
	r := rand.New(rand.NewPCG(testenv.Seed(t), 0))
	acknowledged, now := map[string][32]byte{}, hashes(t, dataset)
	took := map[string]time.Duration{}
	// run has a command end, or kills it, and reports whether it ended.
	run := func(may bool, args ...string) bool {
		t.Helper()
		cmd := exec.Command(testmount.Binary(t), args...)
		cmd.Env = env
		var said bytes.Buffer
		cmd.Stdout, cmd.Stderr = &said, &said
		began := time.Now()
		testenv.Must(t, cmd.Start())
		if may {
			time.Sleep(time.Duration(r.Int64N(int64(took[args[0]]) + 1)))
			_ = cmd.Process.Kill()
		}
		err := cmd.Wait()
		if err != nil && cmd.ProcessState.Exited() {
			t.Fatalf("pipefs %q: %v\n%s", args, err, &said)
		}
		if err == nil {
			took[args[0]] = max(took[args[0]], time.Since(began))
		}
		return err == nil
	}
	holds := func(what string) {
		t.Helper()
		out := filepath.Join(t.TempDir(), "out")
		testmount.Command(t, env, "export", store, "original", out)
		shown := hashes(t, out)
		for name, sum := range shown {
			if sum != acknowledged[name] && sum != now[name] {
				t.Fatalf("after %s: %s is wrong", what, name)
			}
		}
		for name, sum := range acknowledged {
			if _, ok := shown[name]; !ok && now[name] == sum {
				t.Fatalf("after %s: %s is lost", what, name)
			}
		}
	}
	packed := func() {
		acknowledged = now
		holds("packing")
	}
	names := slices.Sorted(maps.Keys(now))
	run(false, "pack", dataset, store)
	packed()
	done := map[string]int{}
	for n := 0; n < kills; {
		from, to := names[r.IntN(len(names))], names[r.IntN(len(names))]
		data, err := os.ReadFile(filepath.Join(dataset, from))
		if err == nil && filepath.Ext(from) == filepath.Ext(to) {
			testenv.Must(t, os.WriteFile(filepath.Join(dataset, to), data, 0o644))
			if r.IntN(4) == 0 && from != to {
				testenv.Must(t, os.Remove(filepath.Join(dataset, from)))
			}
		}
		now = hashes(t, dataset)
		var args []string
		switch r.IntN(6) {
		case 0:
			args = []string{"pack", dataset, store}
		case 1:
			args = []string{"materialize", store, "ppm", "--fraction", fmt.Sprint(float64(1+r.IntN(9)) / 10)}
		case 2:
			args = []string{"compact", "--dead", "1%", store}
		case 3:
			args = []string{"gc", "--older-than", "0s", "--delete", store}
		default:
			p := plan(t, env, "--shards", "2", dataset, store)
			if p.Shards == 0 {
				continue
			}
			which := fmt.Sprintf("0..%d", p.Shards-1)
			if shard := []string{"pack", "--plan", p.Plan, "--shard", which}; !run(r.IntN(2) == 0, shard...) {
				n++
				done["shard"]++
				holds("a killed shard")
				run(false, shard...)
			}
			args = []string{"commit", p.Plan}
		}
		if took[args[0]] == 0 || !run(true, args...) {
			if took[args[0]] > 0 {
				n++
				done[args[0]]++
				holds("a killed " + args[0])
			}
			run(false, args...)
		}
		if args[0] == "commit" || args[0] == "pack" {
			packed()
		}
		holds(args[0])
	}
	run(false, "pack", dataset, store)
	packed()
	run(false, "gc", "--older-than", "0s", "--delete", store)
	mustBeWhole(t, store)
	testenv.Must(t, removeIndex(store, r))
	holds("making the index again")
	out := filepath.Join(t.TempDir(), "ppm")
	testmount.Command(t, env, "export", dataset, "ppm", out)
	testmount.Command(t, env, "materialize", store, "ppm")
	if diff := cmp.Diff(hashes(t, out), hashes(t, filepath.Join(testmount.Mount(t, env, store), "ppm"))); diff != "" {
		t.Errorf("materialized (-dataset +store):\n%s", diff)
	}
	t.Logf("killed: %v", done)
	testenv.Proved(t, "writers", kills)
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
