package e2e

import (
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/control"
	"github.com/pipefs/pipefs/internal/mounts"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/internal/testmount"
)

// TestSuspects: a request that ends each daemon that answers it becomes an error, and the mount
// goes on.
func TestSuspects(t *testing.T) {
	s := newSupervised(t, "--store-max", "0")
	header := make([]byte, 54) // of a BMP file of zeros: 11000 x 11000 pixels, 24 bits each
	const side, size = 11000, 54 + 3*11000*11000
	copy(header, "BM")
	for at, v := range map[int]uint32{2: size, 10: 54, 14: 40, 18: side, 22: side, 26: 1 | 24<<16, 34: size - 54} {
		binary.LittleEndian.PutUint32(header[at:], v)
	}
	name := filepath.Join(s.dataset, "slow.bmp")
	testenv.Must(t, errors.Join(os.WriteFile(name, header, 0o644), os.Truncate(name, size)))
	testenv.EventuallyIs(t, "the file is seen", func() bool { _, err := os.Stat(s.path("bmp/slow.bmp")); return err == nil })
	result := make(chan error, 1)
	go func() {
		_, err := os.Stat(s.path("png/slow.png"))
		result <- err
	}()
	for range 3 {
		var now control.Stats
		testenv.EventuallyIs(t, "the size of the file is computed", func() bool {
			now = s.stats()
			return slices.ContainsFunc(now.Counters, func(c control.Counter) bool {
				return c.Group == "png" && c.Name == "lookups" && c.Value > 0
			})
		})
		testenv.Must(t, syscall.Kill(now.PID, syscall.SIGABRT))
		testenv.EventuallyIs(t, "the next daemon serves", func() bool { return s.stats().PID != now.PID })
	}
	select {
	case err := <-result:
		if !errors.Is(err, unix.EIO) {
			t.Errorf("the file that daemons died of: %v", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("the request that daemons died of is not answered")
	}
	if _, err := os.Stat(s.path("png/slow.png")); !errors.Is(err, unix.EIO) {
		t.Errorf("again: %v", err)
	}
	if _, err := os.ReadFile(firstIn(t, s.path("png"), "*/*.png")); err != nil {
		t.Error(err)
	}
}

// TestInCacheDirectory mounts where the daemon keeps what it prepares, and has a daemon die there.
func TestInCacheDirectory(t *testing.T) {
	t.Parallel()
	testenv.Mounts(t)
	s := &supervised{t: t, env: testmount.Home(t), dataset: testmount.Generate(t, "-samples", "2")}
	cache := t.TempDir()
	s.env = append(s.env, "XDG_CACHE_HOME="+cache)
	s.mnt = filepath.Join(cache, "pipefs", "mnt")
	testenv.Must(t, os.MkdirAll(s.mnt, 0o755))
	testmount.Command(t, s.env, "mount", "--supervise", s.dataset, s.mnt)
	s.kill()
	if _, err := os.ReadFile(firstIn(t, s.path("bmp"), "*/*.bmp")); err != nil {
		t.Error(err)
	}
	testmount.Command(t, s.env, "umount", s.mnt)
}

// TestReadyTimeout: a daemon that does not come up in time is killed, and its mount taken away.
func TestReadyTimeout(t *testing.T) {
	t.Parallel()
	testenv.Mounts(t)
	env, dataset, cache, mnt := testmount.Home(t), testmount.Generate(t, "-samples", "2"), t.TempDir(), t.TempDir()
	testenv.Must(t, os.Mkdir(filepath.Join(cache, "pipefs"), 0o700))
	lock, err := os.Create(filepath.Join(cache, "pipefs", "lock"))
	testenv.Must(t, err)
	defer lock.Close()
	testenv.Must(t, unix.Flock(int(lock.Fd()), unix.LOCK_EX)) // the daemon waits for it
	cmd := exec.Command(testmount.Binary(t), "mount", "--ready-timeout", "1s", dataset, mnt)
	cmd.Env = append(env, "XDG_CACHE_HOME="+cache)
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "did not answer within 1s") {
		t.Errorf("%v: %s", err, out)
	}
	if at, err := mounts.At(mnt); at != nil || err != nil {
		t.Errorf("still mounted: %+v, %v", at, err)
	}
	if out, err := exec.Command("pgrep", "-f", mnt).Output(); err == nil {
		t.Errorf("processes are left: %s", out)
	}
}
