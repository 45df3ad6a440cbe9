package e2e

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/internal/testmount"
	"github.com/pipefs/pipefs/store"
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

// mustBeWhole checks every byte of a store, as pipefs check does.
func mustBeWhole(t *testing.T, dir string) {
	t.Helper()
	problems, err := store.Check(context.Background(), dir, store.Options{Logger: slog.New(slog.DiscardHandler)}, nil)
	if err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
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
