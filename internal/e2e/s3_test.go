package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pipefs/pipefs/internal/cachedir"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/internal/testmount"
)

// inBucket is a dataset, its store in a directory, and a bucket at some distance.
type inBucket struct {
	env            []string // of a machine
	server         *testenv.S3Server
	way            *testenv.Proxy
	dataset, store string
	url            string // of a store that is not there yet
}

func newBucket(t *testing.T) *inBucket {
	t.Parallel()
	b := &inBucket{server: testenv.S3(t), url: "s3://test-bucket/stores/in.store"}
	b.way = testenv.Distance(t, b.server.Endpoint, testenv.Way{Latency: time.Millisecond})
	b.env, b.dataset, b.store = packed(t, "-samples", "24", "-classes", "3", "-width", "320", "-height", "240")
	b.env = b.on(b.env)
	return b
}

// on lets a machine reach the bucket.
func (b *inBucket) on(machine []string) []string {
	return append(append(machine, b.server.Env()...), "AWS_ENDPOINT_URL="+b.way.Endpoint)
}

// fails runs the program, which is to fail, and returns what it says.
func fails(t *testing.T, env []string, args ...string) string {
	t.Helper()
	cmd := exec.Command(testmount.Binary(t), args...)
	cmd.Env = env
	out, err := cmd.CombinedOutput()
	if err == nil {
		t.Fatalf("pipefs %s: did not fail\n%s", strings.Join(args, " "), out)
	}
	return string(out)
}

// sums reads all views that a mount lists, but not random ones: each reading draws anew.
func sums(t *testing.T, mnt string) map[string][32]byte {
	t.Helper()
	all := map[string][32]byte{}
	entries, err := os.ReadDir(mnt)
	testenv.Must(t, err)
	for _, e := range entries {
		if e.IsDir() && !strings.HasPrefix(e.Name(), "rrc") {
			for name, sum := range hashes(t, filepath.Join(mnt, e.Name())) {
				all[filepath.Join(e.Name(), name)] = sum
			}
		}
	}
	return all
}

// A store in a bucket is packed, looked at, checked, exported and mounted as one in a directory,
// and shows the same. scan5 takes half of the bytes. What was read needs no server.
func TestBucketStore(t *testing.T) {
	b := newBucket(t)
	out := testmount.Command(t, b.env, "pack", b.dataset, b.url)
	if !strings.Contains(out, "put into "+b.url) {
		t.Errorf("pack says %q", out)
	}
	again := testmount.Command(t, b.env, "pack", b.dataset, b.url)
	if !strings.HasPrefix(again, "packed 0 files") || strings.Contains(again, "put into") {
		t.Errorf("packing again says %q", again)
	}
	if out := testmount.Command(t, b.env, "check", b.url); out != b.url+" is whole\n" {
		t.Errorf("check says %q", out)
	}
	for _, command := range []string{"info", "views"} {
		there, here := testmount.Command(t, b.env, command, "--json", b.url), testmount.Command(t, b.env, command, "--json", b.store)
		if strings.ReplaceAll(there, b.url, b.store) != here {
			t.Errorf("%s says\n%s\nand of the directory\n%s", command, there, here)
		}
	}
	exported := filepath.Join(t.TempDir(), "out")
	testmount.Command(t, b.env, "export", b.url, "original", exported)
	if !maps.Equal(hashes(t, exported), hashes(t, b.dataset)) {
		t.Error("what was exported differs from the dataset")
	}
	read := func(view string) int64 {
		mnt, unmount := testmount.MountOnce(t, b.env, b.url, "--disk-cache-size", "0", "--store-max", "0", "--no-background")
		defer unmount()
		before := b.way.Bytes.Load()
		hashes(t, filepath.Join(mnt, view))
		return b.way.Bytes.Load() - before
	}
	if part, all := read("scan5"), read("scan10"); part > all/2 {
		t.Errorf("scan5 takes %d bytes from the bucket, scan10 %d", part, all)
	}
	near := testmount.Mount(t, b.env, b.store)
	far, unmount := testmount.MountOnce(t, b.env, b.url)
	want := sums(t, near)
	if got := sums(t, far); len(want) < 200 || !maps.Equal(got, want) {
		t.Errorf("%d files, in the directory %d", len(got), len(want))
	}
	if table, err := os.ReadFile("/proc/mounts"); err != nil || !bytes.Contains(table, []byte(b.url+" "+far+" fuse.pipefs")) {
		t.Errorf("the table of mounts: %v", err)
	}
	b.secret(t)
	unmount()
	far = testmount.Mount(t, b.env, b.url)
	b.server.Stop()
	if got := sums(t, far); !maps.Equal(got, want) {
		t.Errorf("without the server %d files, in the directory %d", len(got), len(want))
	}
}

// secret looks for credentials where they must not be.
func (b *inBucket) secret(t *testing.T) {
	t.Helper()
	processes, err := filepath.Glob("/proc/[0-9]*/cmdline")
	testenv.Must(t, err)
	for _, p := range processes {
		if line, err := os.ReadFile(p); err == nil && bytes.Contains(line, []byte(b.server.SecretKey)) && bytes.Contains(line, []byte("pipefs\x00mount")) {
			t.Errorf("%s: %q", p, line)
		}
	}
	for _, e := range b.env {
		if state, ok := strings.CutPrefix(e, "XDG_STATE_HOME="); ok {
			testenv.Must(t, filepath.WalkDir(state, func(name string, e fs.DirEntry, err error) error {
				if text, err := os.ReadFile(name); err == nil && bytes.Contains(text, []byte(b.server.SecretKey)) {
					t.Errorf("%s holds the secret key", name)
				}
				return nil
			}))
		}
	}
}

// Two that pack at once: one succeeds, the other one too or it says why not, and the store is
// whole at any time. Packing once more gives what the dataset has.
func TestBucketTwoPackers(t *testing.T) {
	b := newBucket(t)
	var group sync.WaitGroup
	var succeeded atomic.Int32
	for range 3 {
		env := b.on(testmount.Home(t)) // another machine
		group.Go(func() {
			cmd := exec.Command(testmount.Binary(t), "pack", b.dataset, b.url)
			cmd.Env = env
			out, err := cmd.CombinedOutput()
			switch {
			case err == nil:
				succeeded.Add(1)
			case !bytes.Contains(out, []byte("another pipefs has written to it meanwhile; the store is as that one left it. Run the same command again")):
				t.Errorf("%s", out)
			}
		})
	}
	group.Wait()
	if succeeded.Load() == 0 {
		t.Error("nobody has packed")
	}
	testmount.Command(t, b.env, "pack", b.dataset, b.url)
	testmount.Command(t, b.env, "check", b.url)
	mnt := testmount.Mount(t, b.env, b.url)
	if !maps.Equal(hashes(t, filepath.Join(mnt, "original")), hashes(t, b.dataset)) {
		t.Error("the store shows something else than the dataset")
	}
}

// A packing that is killed at any time can be gone on with, here and on another machine, and what
// was in the store before stays in it.
func TestBucketPackKilled(t *testing.T) {
	b := newBucket(t)
	testmount.Command(t, b.env, "pack", b.dataset, b.url)
	before := hashes(t, b.dataset)
	write(t, b.dataset, []byte("more"), "more.txt")
	rounds := 3
	if testenv.Soak() {
		rounds = 60
	}
	for i := range rounds {
		write(t, b.dataset, bytes.Repeat([]byte{byte(i)}, 3<<20), "large.bin")
		cmd := exec.Command(testmount.Binary(t), "pack", b.dataset, b.url)
		cmd.Env = b.env
		requests := b.way.Requests.Load()
		testenv.Must(t, cmd.Start())
		go func() {
			for b.way.Requests.Load() < requests+int64(i*5%40) && cmd.ProcessState == nil {
				time.Sleep(time.Millisecond)
			}
			_ = cmd.Process.Kill()
		}()
		_ = cmd.Wait() // killed, or done before
		machine := b.on(testmount.Home(t))
		mnt, unmount := testmount.MountOnce(t, machine, b.url)
		shown := hashes(t, filepath.Join(mnt, "original"))
		unmount()
		for name, sum := range before {
			if shown[name] != sum {
				t.Fatalf("round %d: %s is not what it was", i, name)
			}
		}
	}
	testmount.Command(t, b.env, "pack", b.dataset, b.url)
	testmount.Command(t, b.env, "check", b.url)
	mnt := testmount.Mount(t, b.env, b.url)
	if !maps.Equal(hashes(t, filepath.Join(mnt, "original")), hashes(t, b.dataset)) {
		t.Error("the store shows something else than the dataset")
	}
}

// What is known of a store and of a dataset in a bucket is listed, counts, and goes by the limit when no
// mount uses it.
func TestBucketCacheLimit(t *testing.T) {
	b := newBucket(t)
	testmount.Command(t, b.env, "pack", b.dataset, b.url)
	type entry struct {
		Dataset, Kind string
		InUse         bool `json:"in_use"`
	}
	kept := func() (known []entry) {
		t.Helper()
		var list struct{ Kept []entry }
		testenv.Must(t, json.Unmarshal([]byte(testmount.Command(t, b.env, "cache", "list", "--json")), &list))
		for _, e := range list.Kept {
			if e.Kind == cachedir.Known {
				known = append(known, e)
			}
		}
		return known
	}
	dataset := "file://" + b.dataset
	mnt, unmount := testmount.MountOnce(t, b.env, b.url)
	_, unmountOther := testmount.MountOnce(t, b.env, dataset)
	testmount.Command(t, b.env, "cache", "limit", "0")
	for _, e := range kept() {
		if !e.InUse {
			t.Errorf("%+v", e)
		}
	}
	if n := len(kept()); n != 2 {
		t.Errorf("%+v", kept())
	}
	if out := testmount.Command(t, b.env, "cache", "list"); !strings.Contains(out, "index") || !strings.Contains(out, "names") || !strings.Contains(out, "a mount") {
		t.Error(out)
	}
	if !maps.Equal(hashes(t, filepath.Join(mnt, "original")), hashes(t, b.dataset)) {
		t.Error("the store shows something else than the dataset")
	}
	unmount()
	unmountOther()
	testmount.Command(t, b.env, "cache", "limit", "0")
	if left := kept(); len(left) > 0 {
		t.Errorf("%+v", left)
	}
}

// What is wrong is told with what to do.
func TestBucketMessages(t *testing.T) {
	b := newBucket(t)
	nobody := append(append([]string{}, b.env...), "AWS_SECRET_ACCESS_KEY=wrong")
	mnt := t.TempDir()
	for _, c := range []struct {
		env  []string
		args []string
		want string
	}{
		{b.env, []string{"mount", "s3://no-such-bucket/st", mnt}, "no-such-bucket"},
		{b.env, []string{"mount", b.url, mnt}, b.url},
		{b.env, []string{"check", b.url}, b.url},
		{nobody, []string{"info", b.url}, "s3://test-bucket"},
		{b.env, []string{"info", "s3://key:hidden@test-bucket/st"}, "credentials do not belong into a URL"},
		{b.env, []string{"tune", b.url}, "is not on this machine"},
	} {
		began := time.Now()
		said := fails(t, c.env, c.args...)
		if !strings.Contains(said, c.want) || strings.Contains(said, "hidden") || strings.Contains(said, "s3:/t") {
			t.Errorf("%q: %s", c.args, said)
		}
		t.Logf("%q: %v: %s", c.args, time.Since(began).Round(10*time.Millisecond), said)
	}
}

// A store in a bucket lives on: by the shards of a plan, by pack, and through warmup, compact and gc. A mount of an
// older generation reads what it opened until gc removes it.
func TestBucketUpkeep(t *testing.T) {
	b := newBucket(t)
	run := func(want string, args ...string) string {
		t.Helper()
		out := testmount.Command(t, b.env, args...)
		if !strings.Contains(out, want) {
			t.Fatalf("pipefs %s: %q is not in\n%s", strings.Join(args, " "), want, out)
		}
		return out
	}
	same := func() {
		t.Helper()
		run("is whole", "check", b.url)
		mnt, unmount := testmount.MountOnce(t, b.env, b.url)
		defer unmount()
		if got, want := hashes(t, filepath.Join(mnt, "original")), hashes(t, b.dataset); !maps.Equal(got, want) {
			t.Fatalf("the mount shows %d files, the dataset has %d, or other bytes", len(got), len(want))
		}
	}
	p := plan(t, b.env, b.dataset, b.url, "--shards", "3")
	shards(t, b.env, p, fmt.Sprintf("0..%d", p.Shards-1))
	run("committed", "commit", p.Plan)
	same()

	old := testmount.Mount(t, b.env, b.url)
	before := hashes(t, b.dataset)
	testmount.Command(t, b.env, "warmup", old, "scan5")
	requests := b.way.Bytes.Load()
	hashes(t, filepath.Join(old, "scan5"))
	if n := b.way.Bytes.Load() - requests; n != 0 {
		t.Errorf("after warmup a view took %d bytes from the bucket", n)
	}

	testenv.Must(t, os.RemoveAll(filepath.Join(b.dataset, "class0")))
	write(t, b.dataset, []byte("label\n"), "labels.txt")
	run("packed 1 file", "pack", b.dataset, b.url)
	same()
	run("rewrote", "compact", "--dead", "10%", b.url)
	same()
	listed := run("nothing was deleted", "gc", "--older-than", "0s", b.url)
	if !strings.Contains(listed, "plans/") {
		t.Errorf("the packs of the plan are not among what compact has replaced:\n%s", listed)
	}
	if got := hashes(t, filepath.Join(old, "original")); !maps.Equal(got, before) {
		t.Error("a mount of an older generation shows something else before gc")
	}
	same()
	run("deleted", "gc", "--older-than", "0s", "--delete", b.url)
	run("nothing to delete", "gc", "--older-than", "0s", b.url)
	same()
	run("", "refresh", old)
	if got, want := hashes(t, filepath.Join(old, "original")), hashes(t, b.dataset); !maps.Equal(got, want) {
		t.Errorf("after a refresh the mount shows %d files, the dataset has %d, or other bytes", len(got), len(want))
	}
}
