package vfs

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/testenv"
)

// What is not a regular file is refused: nothing waits for the other end of a FIFO,
// and nothing is made or locked where a link leads.
func TestOnlyRegularFiles(t *testing.T) {
	dir := t.TempDir()
	elsewhere := filepath.Join(dir, "elsewhere")
	names := map[string]func(name string) error{
		"fifo":          func(name string) error { return unix.Mkfifo(name, 0o666) },
		"link":          func(name string) error { return os.Symlink(filepath.Join(dir, "file"), name) },
		"link to none":  func(name string) error { return os.Symlink(elsewhere, name) },
		"socket":        func(name string) error { return unix.Mknod(name, unix.S_IFSOCK|0o666, 0) },
		"link to /dev":  func(name string) error { return os.Symlink("/dev/zero", name) },
		"link to a dir": func(name string) error { return os.Symlink(dir, name) },
	}
	testenv.Must(t, os.WriteFile(filepath.Join(dir, "file"), []byte("content"), 0o644))
	for what, make := range names {
		name := filepath.Join(dir, what)
		if what[:4] == "link" && what != "link" {
			name = filepath.Join(dir, filepath.Base(what))
		}
		testenv.Must(t, make(name))
		for op, try := range map[string]func() (any, error){
			"open":       func() (any, error) { return OS.Open(name) },
			"direct":     func() (any, error) { return Direct(OS).Open(name) },
			"open write": func() (any, error) { return OS.OpenWrite(name) },
			"size":       func() (any, error) { return OS.Size(name) },
			"lock":       func() (any, error) { return OS.Lock(name) },
		} {
			done := time.AfterFunc(time.Minute, func() { panic(what + ": " + op + " hangs") })
			if got, err := try(); !errors.Is(err, ErrNotRegular) {
				t.Errorf("%s: %s: %v, %v", what, op, got, err)
			}
			done.Stop()
		}
	}
	for op, try := range map[string]func() error{
		"list": func() error { _, err := OS.List(filepath.Join(dir, "fifo")); return err },
		"sync": func() error { return OS.SyncDir(filepath.Join(dir, "fifo")) },
	} {
		if err := try(); !errors.Is(err, unix.ENOTDIR) {
			t.Errorf("%s of a FIFO: %v", op, err)
		}
	}
	if _, err := os.Lstat(elsewhere); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file was made where a link leads: %v", err)
	}
}
