package names

import (
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/testenv"
)

// TestKept: where a new list cannot be kept, the old one goes, or the next mount would show it.
func TestKept(t *testing.T) {
	at := filepath.Join(t.TempDir(), "list")
	testenv.Must(t, os.Mkdir(at, 0o700))
	found, err := Kept(t.Context(), at, slog.New(slog.DiscardHandler),
		func() (*string, error) { return nil, nil }, // it is too old
		func(dir string) (*string, error) {
			if dir == at {
				return nil, &fs.PathError{Op: "write", Path: dir, Err: unix.ENOSPC}
			}
			return &dir, nil
		})
	if err != nil || filepath.Dir(*found) == filepath.Dir(at) {
		t.Errorf("%v, %v", found, err)
	}
	if _, err := os.Stat(at); !os.IsNotExist(err) {
		t.Errorf("the old list: %v", err)
	}
}
