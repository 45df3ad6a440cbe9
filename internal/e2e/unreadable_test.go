package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/internal/testmount"
)

// TestUnreadableFile packs, as a user without rights, a dataset with a file that
// this user may not read: it is named, and all others are packed.
func TestUnreadableFile(t *testing.T) {
	t.Parallel()
	home, err := os.MkdirTemp("", "pipefs-user-")
	testenv.Must(t, err)
	t.Cleanup(func() { os.RemoveAll(home) })
	// Somebody else has to be able to run the binary and to read the dataset.
	dataset, binary := filepath.Join(home, "dataset"), filepath.Join(home, "pipefs")
	generated := testmount.Generate(t, "-samples", "8", "-classes", "1", "-width", "80", "-height", "60", "-png-every", "0")
	testenv.Must(t, os.CopyFS(dataset, os.DirFS(generated)))
	program, err := os.ReadFile(testmount.Binary(t))
	testenv.Must(t, err)
	testenv.Must(t, os.WriteFile(binary, program, 0o755))
	closed := filepath.Join(dataset, "class00", "000003_0.jpg")
	testenv.Must(t, os.Chmod(closed, 0))
	const nobody = 65534
	attr := &syscall.SysProcAttr{}
	if os.Getuid() == 0 {
		attr.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
		testenv.Must(t, os.Chown(home, nobody, nobody))
	}
	run := func(args ...string) string {
		t.Helper()
		cmd := exec.Command(binary, args...)
		cmd.SysProcAttr, cmd.Dir = attr, home
		cmd.Env = append(os.Environ(), "HOME="+home, "GORACE=atexit_sleep_ms=0")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Logf("%v", err)
		}
		return string(out)
	}
	store := filepath.Join(home, "store")
	if out := run("pack", dataset, store); !strings.Contains(out, "000003_0.jpg") {
		t.Errorf("pack does not name the file that it left out:\n%s", out)
	}
	mnt := testmount.Mount(t, testmount.Home(t), store)
	entries, err := os.ReadDir(filepath.Join(mnt, "bmp", "class00"))
	if err != nil || len(entries) != 7 {
		t.Fatalf("%d of 7 readable samples are there, %v", len(entries), err)
	}
	for _, e := range entries {
		if data, err := os.ReadFile(filepath.Join(mnt, "bmp", "class00", e.Name())); err != nil || len(data) == 0 {
			t.Errorf("%s: %d bytes, %v", e.Name(), len(data), err)
		}
	}
}
