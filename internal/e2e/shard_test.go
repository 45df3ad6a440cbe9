package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/internal/testmount"
)

// planned is what pipefs plan --json prints.
type planned struct {
	Plan                    string
	Shards                  int
	Files, Dirs, Tombstones int64
	Bytes                   int64
	Memory                  int64 `json:"worker_memory_bytes"`
	Disk                    int64 `json:"worker_disk_bytes"`
}

func plan(t *testing.T, env []string, args ...string) (p planned) {
	t.Helper()
	testenv.Must(t, json.Unmarshal([]byte(testmount.Command(t, env, append([]string{"plan", "--json"}, args...)...)), &p))
	return p
}

// shards packs shards of a plan.
func shards(t *testing.T, env []string, p planned, which string, args ...string) string {
	t.Helper()
	return testmount.Command(t, env, append([]string{"pack", "--plan", p.Plan, "--shard", which}, args...)...)
}

// plansOf are the files of all plans of a store.
func plansOf(t *testing.T, store string) map[string][32]byte {
	t.Helper()
	return hashes(t, filepath.Join(store, "plans"))
}

// copyOf is a copy of a dataset with other inodes and ctimes, and the same mtimes.
func copyOf(t *testing.T, dataset string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "copy")
	if out, err := exec.Command("cp", "-rp", dataset, to).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return to
}

// Whoever packs the shards of a plan makes the same bytes: one process, many at once, from copies of the dataset, into a
// directory or a bucket, and after any number were killed.
func TestShards(t *testing.T) {
	t.Parallel()
	server := testenv.S3(t)
	dataset := testmount.Generate(t, "-samples", "60", "-classes", "3", "-width", "320", "-height", "240")
	write(t, dataset, []byte("\xff\xd8\xff\xd8 no picture"), "class0/damaged.jpg")
	write(t, dataset, slices.Repeat([]byte("label\n"), 1000), "labels.txt")
	elsewhere := copyOf(t, dataset)
	for _, options := range [][]string{
		{"--shards", "5"},
		{"--shards", "3", "--record-images", "16", "--order", "shuffle", "--seed", "3", "--originals", "keep"},
	} {
		env := testmount.Home(t)
		one := filepath.Join(t.TempDir(), "one")
		p := plan(t, env, append([]string{dataset, one}, options...)...)
		out := shards(t, env, p, fmt.Sprintf("0..%d", p.Shards-1), "--workers", "1")
		if n := strings.Count(out, "is done:"); n != p.Shards {
			t.Fatalf("%d shards, want %d\n%s", n, p.Shards, out)
		}
		want := plansOf(t, one)

		many := filepath.Join(t.TempDir(), "many")
		p = plan(t, env, append([]string{dataset, many}, options...)...)
		var group sync.WaitGroup
		for i := range 3 * p.Shards {
			env := testmount.Home(t) // of another machine
			group.Go(func() {
				args := []string{"pack", "--plan", p.Plan, "--shard", fmt.Sprint(i % p.Shards)}
				if i%2 == 1 {
					args = append(args, "--dataset", elsewhere)
				}
				cmd := exec.Command(testmount.Binary(t), args...)
				cmd.Env = env
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Errorf("shard %d: %v\n%s", i%p.Shards, err, out)
				}
			})
		}
		group.Wait()
		if got := plansOf(t, many); !maps.Equal(got, want) {
			t.Errorf("%v: many at once made other bytes: %v, want %v", options, slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
		}

		bucket := "s3://" + server.Bucket + "/" + filepath.Base(t.TempDir()) + options[1]
		env = append(env, server.Env()...)
		p = plan(t, env, append([]string{dataset, bucket}, options...)...)
		killed := workUntilDone(t, env, p)
		if got := plansOf(t, filepath.Join(server.Dir, strings.TrimPrefix(bucket, "s3://"+server.Bucket+"/"))); !maps.Equal(got, want) {
			t.Errorf("%v: %d workers were killed, and there are other bytes: %v, want %v", options, killed, slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
		}
	}
}

// workUntilDone packs all shards, each in a process of its own, of which some are killed at random, and reports how many.
func workUntilDone(t *testing.T, env []string, p planned) (killed int) {
	t.Helper()
	r := rand.New(rand.NewPCG(testenv.Seed(t), 1))
	for i := range p.Shards {
		for try := 0; ; try++ {
			cmd := exec.Command(testmount.Binary(t), "pack", "--plan", p.Plan, "--shard", fmt.Sprint(i))
			cmd.Env = env
			var out strings.Builder
			cmd.Stdout, cmd.Stderr = &out, &out
			testenv.Must(t, cmd.Start())
			kill := time.AfterFunc(time.Duration(r.IntN(400))*time.Millisecond, func() { _ = cmd.Process.Kill() })
			if try >= 4 {
				kill.Stop()
			}
			err := cmd.Wait()
			if kill.Stop() || try >= 4 {
				testenv.Must(t, err)
			}
			if err == nil {
				break
			}
			killed++
		}
	}
	for _, v := range env {
		if cache, is := strings.CutPrefix(v, "XDG_CACHE_HOME="); is {
			if left, err := filepath.Glob(filepath.Join(cache, "pipefs/build/shard-*")); err != nil || len(left) > 0 {
				t.Errorf("left behind: %q, %v", left, err)
			}
		}
	}
	return killed
}

// A plan of a bucket reads objects by their versions, and lists nothing but once.
func TestShardsOfBucket(t *testing.T) {
	server := testenv.S3(t)
	env := append(testmount.Home(t), server.Env()...)
	dataset := testmount.Generate(t, "-samples", "20", "-classes", "2", "-width", "320", "-height", "240")
	url := "s3://" + server.Bucket + "/dataset"
	names := slices.Sorted(maps.Keys(hashes(t, dataset)))
	upload(t, server, dataset, "dataset", names...)
	store := filepath.Join(t.TempDir(), "store")
	p := plan(t, env, "--shards", "2", url, store)
	if again := plan(t, env, "--shards", "2", url, store); again != p { // listed again, at another time
		t.Errorf("%+v, then %+v", p, again)
	}
	shards(t, env, p, "0")
	// An object that is replaced is another version, with the same size too.
	var name string
	for _, n := range names {
		if strings.HasSuffix(n, ".jpg") {
			name = n // of the last shard
		}
	}
	data, err := os.ReadFile(filepath.Join(dataset, name))
	testenv.Must(t, err)
	data[len(data)-1]++
	testenv.Must(t, os.WriteFile(filepath.Join(dataset, name), data, 0o644))
	upload(t, server, dataset, "dataset", name)
	shards(t, env, p, "1")
	if m := markerOf(t, store, p, 1); m.Failed != 1 || m.Failures[0].Path != name || m.Failures[0].Reason != "it is not the version that was planned" {
		t.Errorf("%+v, of %s", m, name)
	}
	if m := markerOf(t, store, p, 0); m.Failed != 0 || m.Files == 0 {
		t.Errorf("%+v", m)
	}
}

type marker struct {
	Files, Faults, Failed int64
	Failures              []struct{ Path, Reason string }
}

func markerFile(store string, p planned, shard int) string {
	return filepath.Join(store, strings.TrimSuffix(p.Plan[strings.LastIndex(p.Plan, "/plans/"):], ".plan"), fmt.Sprintf("shards/%06d", shard))
}

func markerOf(t *testing.T, store string, p planned, shard int) (m marker) {
	t.Helper()
	text, err := os.ReadFile(markerFile(store, p, shard))
	testenv.Must(t, err)
	testenv.Must(t, json.Unmarshal(regexp.MustCompile(`(?m)^crc32c .*$`).ReplaceAll(text, nil), &m))
	return m
}

// What happened to a file after the plan is in the marker, in the same words on every machine; a dataset that is not
// there is no reason to mark a shard as done.
func TestShardsOfChangedDataset(t *testing.T) {
	t.Parallel()
	env := testmount.Home(t)
	dataset := testmount.Generate(t, "-samples", "20", "-classes", "1", "-width", "64", "-height", "48")
	var names []string
	for name := range hashes(t, dataset) {
		names = append(names, name)
	}
	slices.Sort(names)
	write(t, dataset, []byte("\xff\xd8\xff\xd8 no picture"), "damaged.jpg")
	store := filepath.Join(t.TempDir(), "store")
	p := plan(t, env, dataset, store)
	bare := filepath.Join(t.TempDir(), "bare") // a copy without mtimes
	if out, err := exec.Command("cp", "-r", dataset, bare).CombinedOutput(); err != nil {
		t.Fatalf("%s", out)
	}
	for args, want := range map[string]string{
		"--dataset=" + bare:                          "the dataset is not the one that was planned: none of the",
		"--dataset=" + t.TempDir():                   "is empty: there is no file in it, and nothing was packed",
		"--dataset=" + filepath.Join(dataset, "not"): "--dataset DIR says where the dataset is on this machine",
	} {
		if out := fails(t, env, "pack", "--plan", p.Plan, "--shard", "0", args); !strings.Contains(out, want) {
			t.Errorf("%s: %s", args, out)
		}
	}
	if found := plansOf(t, store); len(found) != 1 {
		t.Errorf("written: %v", slices.Sorted(maps.Keys(found)))
	}
	gone, changed, longer := filepath.Join(dataset, names[0]), filepath.Join(dataset, names[1]), filepath.Join(dataset, names[2])
	testenv.Must(t, os.Remove(gone))
	now := time.Now()
	testenv.Must(t, os.Chtimes(changed, now, now))
	f, err := os.OpenFile(longer, os.O_APPEND|os.O_WRONLY, 0)
	testenv.Must(t, err)
	_, err = f.WriteString("more")
	testenv.Must(t, err)
	testenv.Must(t, f.Close())
	if out := shards(t, env, p, "0"); !strings.Contains(out, "3 files were left out") {
		t.Errorf("%s", out)
	}
	m := markerOf(t, store, p, 0)
	const other = "it is not the version that was planned"
	if got := fmt.Sprint(m.Failures); m.Failed != 3 || m.Faults != 1 || got != fmt.Sprintf("[{%s it is gone} {%s %s} {%s %[3]s}]", names[0], names[1], other, names[2]) {
		t.Errorf("%+v", m)
	}
}
