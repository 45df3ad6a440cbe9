// Package testmount runs the real binary for tests and benchmarks: it builds it
// once, gives it directories of its own, mounts, and cleans up.
package testmount

import (
	"bytes"
	"debug/buildinfo"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/pipefs/pipefs/internal/cgroup"
	"github.com/pipefs/pipefs/internal/mounts"
	"github.com/pipefs/pipefs/internal/pictures"
	"github.com/pipefs/pipefs/internal/testenv"
)

// builds are the programs that this process has built: with the race detector and without.
var builds [2]struct {
	once sync.Once
	dir  string
	err  error
}

// Program names a program that is there already, for [Binary]. make test builds one with the race detector for all packages;
// the tests, which only look at what it does, are compiled without.
const Program = "PIPEFS_PROGRAM"

// Binary returns the path of the binary: that of [Program], or one that is built now, with the race detector if the test is.
// A package that uses it has a TestMain of Main.
func Binary(t testing.TB) string {
	t.Helper()
	testenv.Slow(t)
	if given := os.Getenv(Program); given != "" {
		return given
	}
	return built(t, testenv.Race)
}

// Raced reports whether Binary has the race detector, and takes several times the memory and the time.
func Raced(t testing.TB) bool {
	t.Helper()
	info, err := buildinfo.ReadFile(Binary(t))
	testenv.Must(t, err)
	return slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

// Plain is Binary without the race detector.
func Plain(t testing.TB) string {
	t.Helper()
	if !Raced(t) {
		return Binary(t)
	}
	return built(t, false)
}

func built(t testing.TB, race bool) string {
	t.Helper()
	b, args := &builds[0], []string{"build"}
	if race {
		b, args = &builds[1], append(args, "-race")
	}
	b.once.Do(func() {
		if b.dir, b.err = os.MkdirTemp("", "pipefs-test-"); b.err != nil {
			return
		}
		args = append(args, "-o", filepath.Join(b.dir, "pipefs"), "github.com/pipefs/pipefs/cmd/pipefs")
		if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
			b.err = fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, out)
		}
	})
	testenv.Must(t, b.err)
	return filepath.Join(b.dir, "pipefs")
}

// Main runs the tests of a package that uses Binary, and returns what to exit with. It
// deletes the binary, and is not content while something is mounted that a test of the
// package has mounted; other packages may be testing at the same time.
func Main(m *testing.M) (code int) {
	code = m.Run()
	for i := range builds {
		os.RemoveAll(builds[i].dir)
	}
	for _, made := range generated.Range {
		if dir, _ := made.(func() (string, error))(); dir != "" {
			os.RemoveAll(dir)
		}
	}
	table, _ := mounts.Within("/")
	for _, m := range table {
		if m.Ours() && mounted[m.Mountpoint] {
			fmt.Fprintln(os.Stderr, "mount left behind:", m.Mountpoint)
			code = 1
		}
	}
	return code
}

// mounted are the mount points of this package's tests.
var (
	mountedMu sync.Mutex
	mounted   = map[string]bool{}
)

// Home gives the binary cache and runtime directories that end with the test,
// and returns the environment that says so.
func Home(t testing.TB) []string {
	t.Helper()
	dir := t.TempDir()
	runtime := filepath.Join(dir, "run")
	testenv.Must(t, os.Mkdir(runtime, 0o700))
	// The race detector sleeps for a second before a process ends, to catch what
	// nobody waits for; a command line that waits for all it starts need not.
	return append(os.Environ(), "GORACE=atexit_sleep_ms=0", "XDG_CACHE_HOME="+filepath.Join(dir, "cache"),
		"XDG_STATE_HOME="+filepath.Join(dir, "state"), "XDG_RUNTIME_DIR="+runtime)
}

// Command runs the binary, fails the test unless it succeeds, and returns its
// standard output.
func Command(t testing.TB, env []string, args ...string) string {
	t.Helper()
	cmd := exec.Command(Binary(t), args...)
	cmd.Env = env
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("pipefs %s: %v\n%s%s", strings.Join(args, " "), err, stdout.Bytes(), stderr.Bytes())
	}
	return stdout.String()
}

// Mount mounts a dataset or store for the length of the test.
func Mount(t testing.TB, env []string, what string, args ...string) string {
	t.Helper()
	mnt, unmount := MountOnce(t, env, what, args...)
	t.Cleanup(unmount)
	return mnt
}

// MountOnce mounts a dataset or store until unmount is called, which looks
// through the daemon's log.
func MountOnce(t testing.TB, env []string, what string, args ...string) (mnt string, unmount func()) {
	t.Helper()
	testenv.Mounts(t)
	mnt = filepath.Join(t.TempDir(), "mnt")
	testenv.Must(t, os.Mkdir(mnt, 0o755))
	mountedMu.Lock()
	mounted[mnt] = true
	mountedMu.Unlock()
	log := filepath.Join(t.TempDir(), "daemon.log")
	Command(t, env, append([]string{"mount", "--log-file", log, what, mnt}, args...)...)
	return mnt, func() {
		Command(t, env, "umount", mnt)
		out, _ := os.ReadFile(log)
		if bad := Bad(out); bad != "" {
			t.Errorf("the daemon's log:\n%s", bad)
		} else if t.Failed() {
			t.Logf("the daemon's log:\n%s", out[max(0, len(out)-4000):])
		}
	}
}

// badLine is how a daemon tells of a bug.
var badLine = regexp.MustCompile(`.*(DATA RACE|panic: |panic in a request|fatal error: )`)

// Bad is what a daemon's log tells of a bug, from its first line on; "" if it tells of none.
func Bad(log []byte) string {
	at := badLine.FindIndex(log)
	if at == nil {
		return ""
	}
	return string(log[at[0]:min(len(log), at[0]+10_000)])
}

// generated are the datasets that this process has made, by their flags: a function that returns the directory.
var generated sync.Map

// Generate writes a dataset of our own with genset's flags, which belongs to the test.
func Generate(t testing.TB, args ...string) string {
	t.Helper()
	testenv.Slow(t)
	made, _ := generated.LoadOrStore(strings.Join(args, " "), sync.OnceValues(func() (string, error) {
		flags := flag.NewFlagSet("genset", flag.ContinueOnError)
		set := pictures.Flags(flags)
		if err := flags.Parse(args); err != nil {
			return "", err
		}
		dir, err := os.MkdirTemp("", "pipefs-test-")
		if err != nil {
			return "", err
		}
		return dir, set.Write(dir)
	}))
	from, err := made.(func() (string, error))()
	testenv.Must(t, err)
	dir := filepath.Join(t.TempDir(), "dataset")
	testenv.Must(t, os.CopyFS(dir, os.DirFS(from)))
	return dir
}

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
