package testmount

import (
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/pipefs/pipefs/internal/cgroup"
	"github.com/pipefs/pipefs/internal/testenv"
)

var groups atomic.Int32

// MemoryGroup makes a cgroup that allows so many bytes, and returns its directory; where this
// machine has none, the test is skipped.
func MemoryGroup(t testing.TB, limit int64) (dir string, h cgroup.Hierarchy) {
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
	dir = filepath.Join(h.Root, fmt.Sprint("pipefs-test-", os.Getpid(), "-", groups.Add(1)))
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Skip("NOT TESTED with little memory: ", err)
	}
	t.Cleanup(func() { // its processes may just be ending
		testenv.Eventually(t, func() error { return os.Remove(dir) })
	})
	testenv.Must(t, os.WriteFile(filepath.Join(dir, file), fmt.Append(nil, limit), 0))
	return dir, h
}
