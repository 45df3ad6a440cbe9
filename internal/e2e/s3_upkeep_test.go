package e2e

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/internal/testmount"
)

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
