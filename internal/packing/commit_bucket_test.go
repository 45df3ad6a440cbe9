package packing

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/pipefs/pipefs/internal/remote"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/store"
	"github.com/pipefs/pipefs/store/blob"
	"github.com/pipefs/pipefs/store/vfs"
	"github.com/pipefs/pipefs/store/vfs/faultfs"
)

// Commits in a bucket: what one asks for, and that of two which began at once on different machines one is done, and the other one
// leaves the store as that one made it.
func TestCommitInBucket(t *testing.T) {
	server := testenv.S3(t)
	for _, line := range append(server.Env(), "HOME="+t.TempDir()) {
		name, value, _ := strings.Cut(line, "=")
		t.Setenv(name, value)
	}
	url := "s3://" + server.Bucket + "/st"
	at := remote.Access{Dir: tempDir(t)}
	// machine opens the store for a commit, as a machine with its own disk does.
	machine := func() CommitOptions {
		files, err := at.Open(t.Context(), url, remote.Options{})
		testenv.Must(t, err)
		t.Cleanup(func() { _ = files.Close() })
		build, err := files.Build(tempDir(t))
		testenv.Must(t, err)
		return CommitOptions{
			CommitOptions: store.CommitOptions{FS: build, IndexDir: filepath.Join(tempDir(t), "index"), Logger: quiet},
			Flush:         func() error { _, err := build.Finish(); return err },
		}
	}
	plan := func(m memory, shards int) *Plan {
		mk := making(t, m)
		var err error
		mk.Place, err = blob.Open(t.Context(), url, blob.Options{})
		testenv.Must(t, err)
		mk.Shards = shards
		files, err := at.Open(t.Context(), url, remote.Options{})
		testenv.Must(t, err)
		defer files.Close()
		if is, err := store.IsIn(files, url); err == nil && is {
			mk.Base, err = store.Open(url, store.Options{FS: files, IndexDir: filepath.Join(tempDir(t), "index"), Logger: quiet})
			testenv.Must(t, err)
			defer mk.Base.Close()
		}
		p := mustMake(t, mk)
		packShards(t, p, m)
		return p
	}
	m := someFiles(200)
	first := plan(m, 40)
	var asked atomic.Int64
	first.place = &faultfs.Objects{Objects: first.place, Before: func(string, string) error {
		asked.Add(1)
		return nil
	}}
	o := machine()
	_, err := first.Commit(t.Context(), url, o)
	testenv.Must(t, err)
	if n := asked.Load(); n > 40+5 {
		t.Errorf("%d requests for 40 markers", n)
	}
	hold := func(m memory) {
		t.Helper()
		clone := filepath.Join(tempDir(t), "clone")
		testenv.Must(t, os.CopyFS(clone, os.DirFS(filepath.Join(server.Dir, "st"))))
		mustHold(t, clone, m)
	}
	hold(m)

	a, b := m.with(func(m memory) { m["a.txt"] = "a" }), m.with(func(m memory) { m["b.txt"] = "b" })
	planA, planB := plan(a, 1), plan(b, 1)
	late := machine() // knows CURRENT as it is now
	o = machine()
	_, err = planA.Commit(t.Context(), url, o)
	testenv.Must(t, err)
	was := content(t, filepath.Join(server.Dir, "st"))
	if _, err := planB.Commit(t.Context(), url, late); !errors.Is(err, vfs.ErrConflict) && !errors.Is(err, store.ErrStale) {
		t.Errorf("the second one: %v", err)
	}
	o = machine()
	if _, err := planB.Commit(t.Context(), url, o); !errors.Is(err, store.ErrStale) {
		t.Errorf("again: %v", err)
	}
	if is := content(t, filepath.Join(server.Dir, "st")); !maps.Equal(is, was) {
		for name := range is {
			if is[name] != was[name] {
				t.Errorf("%s is another", name)
			}
		}
		t.Errorf("the store is another: %d files, were %d", len(is), len(was))
	}
	hold(a)
	late = machine()
	planC := plan(b, 1)
	if r, err := planC.Commit(t.Context(), url, late); !errors.Is(err, ErrIncomplete) || len(r.Missing) != 1 {
		t.Errorf("a shard that was done after the commit had begun: %v", err)
	}
	o = machine()
	_, err = planC.Commit(t.Context(), url, o)
	testenv.Must(t, err)
	o = machine()
	if r, err := planC.Commit(t.Context(), url, o); err != nil || !r.Already {
		t.Errorf("%+v, %v", r, err)
	}
	hold(b)
}
