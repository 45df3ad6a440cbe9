package store

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/store/vfs"
)

// Every file of a store in turn is a FIFO, or a link: opening, checking and packing
// end, and touch nothing outside the store.
func TestIrregularFiles(t *testing.T) {
	t.Parallel()
	start, src := small(t)
	elsewhere := filepath.Join(tempDir(t), "elsewhere")
	for _, pattern := range []string{formatName, lockName, currentName, generationsName + "/*", packsName + "/000001-*.pack"} {
		for what, replace := range map[string]func(name string) error{
			"a FIFO": func(name string) error { return unix.Mkfifo(name, 0o666) },
			"a link": func(name string) error { return os.Symlink(elsewhere, name) },
		} {
			dir := tempDir(t)
			testenv.Must(t, os.CopyFS(dir, os.DirFS(start)))
			names, err := filepath.Glob(filepath.Join(dir, pattern))
			if err != nil || len(names) != 1 {
				t.Fatal(names, err)
			}
			testenv.Must(t, errors.Join(os.Remove(names[0]), replace(names[0])))
			late := time.AfterFunc(time.Minute, func() { panic(pattern + " is " + what + ": hangs") })
			s, err := Open(dir, Options{Logger: quiet})
			index := pattern == currentName || pattern == generationsName+"/*" || pattern == lockName
			switch {
			case index && err != nil, !index && !errors.Is(err, vfs.ErrNotRegular):
				t.Errorf("%s is %s: open: %v", pattern, what, err)
			case index:
				if bad, err := compareStore(s, src); bad > 0 || err != nil {
					t.Errorf("%s is %s: %d corrupt, %v", pattern, what, bad, err)
				}
				_ = s.Close()
			}
			_, err = Check(context.Background(), dir, Options{Logger: quiet}, nil)
			if err != nil && !errors.Is(err, vfs.ErrNotRegular) {
				t.Errorf("%s is %s: check: %v", pattern, what, err)
			}
			_, err = Pack(context.Background(), dir, src, fakeEncoder{id: "1"}, PackOptions{Logger: quiet})
			if pattern == lockName && !errors.Is(err, vfs.ErrNotRegular) {
				t.Errorf("%s is %s: pack: %v", pattern, what, err)
			}
			late.Stop()
			if _, err := os.Lstat(elsewhere); !errors.Is(err, os.ErrNotExist) {
				t.Fatalf("%s is %s: a file was made where it leads: %v", pattern, what, err)
			}
		}
	}
}
