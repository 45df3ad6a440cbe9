package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pipefs/pipefs/internal/cgroup"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/internal/testmount"
)

// memoryGroup makes a cgroup that allows so many bytes, and returns its directory; where this
// machine has none, the test is skipped.
func memoryGroup(t *testing.T, limit int64) (dir string, h cgroup.Hierarchy) {
	t.Helper()
	testenv.Root(t)
	system, err := cgroup.Here()
	testenv.Must(t, err)
	h, err = system.Hierarchy(cgroup.Memory)
	if err != nil {
		t.Skip("NOT TESTED with little memory: ", err)
	}
	file := "memory.limit_in_bytes"
	if h.V2 {
		file = "memory.max"
		if err := os.WriteFile(filepath.Join(h.Root, "cgroup.subtree_control"), []byte("+memory"), 0); err != nil {
			t.Skip("NOT TESTED with little memory: ", err)
		}
	}
	dir = filepath.Join(h.Root, fmt.Sprint("pipefs-test-", os.Getpid()))
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Skip("NOT TESTED with little memory: ", err)
	}
	t.Cleanup(func() { // its processes may just be ending
		testenv.Eventually(t, func() error { return os.Remove(dir) })
	})
	testenv.Must(t, os.WriteFile(filepath.Join(dir, file), fmt.Append(nil, limit), 0))
	return dir, h
}

// TestLittleMemory: a daemon that nothing was said to fits into a cgroup that allows less than the
// defaults of its caches take together, and serves an epoch of more than that: 315 MB.
func TestLittleMemory(t *testing.T) {
	t.Parallel()
	testenv.Mounts(t)
	group, h := memoryGroup(t, 240<<20)
	env := testmount.Home(t)
	generated := testmount.Generate(t, "-samples", "40", "-classes", "1")
	const copies = 10
	dataset := t.TempDir()
	names, err := filepath.Glob(filepath.Join(generated, "*", "*"))
	testenv.Must(t, err)
	for i := range copies {
		class := filepath.Join(dataset, fmt.Sprint("class", i))
		testenv.Must(t, os.Mkdir(class, 0o755))
		for _, name := range names {
			testenv.Must(t, os.Link(name, filepath.Join(class, filepath.Base(name))))
		}
	}
	binary := testmount.Binary(t)
	if testenv.Race { // the race detector takes several times the memory
		binary = filepath.Join(t.TempDir(), "pipefs")
		if out, err := exec.Command("go", "build", "-o", binary, "github.com/pipefs/pipefs/cmd/pipefs").CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	mnt, log := filepath.Join(t.TempDir(), "mnt"), filepath.Join(t.TempDir(), "daemon.log")
	testenv.Must(t, os.Mkdir(mnt, 0o755))
	mount := exec.Command("sh", "-c", `echo $$ > "$0/cgroup.procs" && exec "$@"`, group, binary, "mount", "--log-file", log, dataset, mnt)
	mount.Env = env
	if out, err := mount.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	defer testmount.Command(t, env, "umount", mnt)
	view := filepath.Join(mnt, ".epoch/7/0/1/0/16/rrc512-hflip-npy")
	for k := range copies * len(names) / 16 {
		if _, err := os.ReadFile(filepath.Join(view, fmt.Sprintf("%06d.npy", k))); err != nil {
			t.Fatal(err)
		}
	}
	events := "memory.oom_control"
	if h.V2 {
		events = "memory.events"
	}
	told, err := os.ReadFile(filepath.Join(group, events))
	if err != nil || !strings.Contains(string(told), "oom_kill 0\n") {
		t.Errorf("%s, %v", told, err)
	}
	if lines, err := os.ReadFile(log); err != nil || !strings.Contains(string(lines), "a cgroup limits memory") {
		t.Errorf("%s, %v", lines, err)
	}
}
