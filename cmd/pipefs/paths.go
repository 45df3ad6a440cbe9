package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/control"
	"github.com/pipefs/pipefs/store/vfs"
)

// home is the user's directory, even where no HOME is set, as when fstab is
// mounted at boot.
func home() (string, error) {
	if dir, err := os.UserHomeDir(); err == nil && filepath.IsAbs(dir) {
		return dir, nil
	}
	u, err := user.Current()
	if err != nil || !filepath.IsAbs(u.HomeDir) {
		return "", errors.New("the user has no home directory")
	}
	return u.HomeDir, nil
}

// underHome is a directory by the XDG rules: $NAME/pipefs or ~/FALLBACK/pipefs.
// Where neither can be made it is a private directory in /tmp.
func underHome(variable, fallback string) (string, error) {
	dir := os.Getenv(variable)
	if !filepath.IsAbs(dir) {
		dir = ""
		if h, err := home(); err == nil {
			dir = filepath.Join(h, fallback)
		}
	}
	if dir != "" {
		dir = filepath.Join(dir, "pipefs")
		if err := os.MkdirAll(dir, 0o700); err == nil && unix.Access(dir, unix.W_OK) == nil {
			return dir, nil
		}
	}
	return control.TempDir()
}

// digest names something by its path: 16 hexadecimal digits.
func digest(path string) string {
	sum := sha256.Sum256([]byte(path))
	return hex.EncodeToString(sum[:8])
}

// cachePath is where what is prepared for a dataset is kept.
func cachePath(dataset string) (string, error) {
	dir, err := underHome("XDG_CACHE_HOME", ".cache")
	if err != nil {
		return "", fmt.Errorf("cache directory: %w", err)
	}
	dir = filepath.Join(dir, digest(dataset))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("cache directory: %w", err)
	}
	// for people who wonder what takes their space
	_ = os.WriteFile(filepath.Join(dir, "dataset"), []byte(dataset+"\n"), 0o600)
	return dir, nil
}

// logPath is where the daemon of a mount logs to.
func logPath(mount string) (string, error) {
	dir, err := underHome("XDG_STATE_HOME", ".local/state")
	if err != nil {
		return "", fmt.Errorf("directory for the log: %w", err)
	}
	name := strings.Trim(strings.Map(func(r rune) rune {
		if r == '-' || r == '_' || r == '.' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '-'
	}, filepath.Base(mount)), "-.")
	return filepath.Join(dir, name[:min(len(name), 40)]+"-"+digest(mount)[:8]+".log"), nil
}

// slot is a numbered directory that this process holds alone.
type slot struct {
	dir  string
	lock io.Closer
}

// takeSlot finds the first directory dir/name.N that nobody holds: several mounts
// of one dataset each get their own, and find it again the next time.
func takeSlot(dir, name string) (*slot, error) {
	for n := range 1000 {
		at := filepath.Join(dir, fmt.Sprintf("%s.%d", name, n))
		lock, err := vfs.OS.Lock(at + ".lock")
		if err == nil {
			return &slot{dir: at, lock: lock}, nil
		}
		if !errors.Is(err, vfs.ErrLocked) {
			return nil, err
		}
	}
	return nil, fmt.Errorf("%s: a thousand mounts of one dataset", dir)
}

// keptBefore reports whether mounts have kept in dir what they prepared.
func keptBefore(dir string) bool {
	_, err := os.Lstat(filepath.Join(dir, "overlay.0.lock"))
	return err == nil
}

// release gives the directory to the next one who wants it.
func (s *slot) release() { s.lock.Close() }

// freeSpace is the number of bytes that a user may still write below dir.
func freeSpace(dir string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	return int64(st.Bavail) * st.Bsize, nil
}

// defaultStoreMax is what a mount may keep where nobody said how much.
func defaultStoreMax(dir string) int64 {
	const most = 50e9
	free, err := freeSpace(dir)
	if err != nil {
		return most / 10
	}
	return min(free/10, most)
}

// umask is the process's; it can only be read by setting it.
func umask() os.FileMode {
	mask := syscall.Umask(0)
	syscall.Umask(mask)
	return os.FileMode(mask)
}
