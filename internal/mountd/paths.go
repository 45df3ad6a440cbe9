package mountd

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/cachedir"
	"github.com/pipefs/pipefs/internal/control"
	"github.com/pipefs/pipefs/internal/mounts"
	"github.com/pipefs/pipefs/internal/source"
	"github.com/pipefs/pipefs/store"
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

// UserDir is a directory by the XDG rules: $NAME/pipefs or ~/FALLBACK/pipefs.
// Where neither can be made it is a private directory in /tmp.
func UserDir(variable, fallback string) (string, error) {
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

// CacheRoot is where what mounts prepare is kept.
func CacheRoot() (*cachedir.Root, error) {
	dir, err := UserDir("XDG_CACHE_HOME", ".cache")
	if err != nil {
		return nil, fmt.Errorf("cache directory: %w", err)
	}
	return cachedir.Open(dir), nil
}

// LogPath is where the daemon of a mount logs to.
func LogPath(mount string) (string, error) {
	dir, err := UserDir("XDG_STATE_HOME", ".local/state")
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

// OpenNearby opens the dataset that the store in dir was packed from, if it still is where
// it was: reading its files costs less than rebuilding them. It has to lie on a disk of
// this machine, since a store is often made to spare a server. nil is none.
//
// Whoever made the store said where the dataset is. A store of another user may lead only
// to a dataset of that same user, and to nothing that links in it lead to.
func OpenNearby(s *store.Store, dir string, o source.Options) source.Dataset {
	d, err := mounts.Answer(dir, mounts.Patience, func() (source.Dataset, error) {
		maker, err := owner(dir)
		if err != nil {
			return nil, err
		}
		at := s.Stats().Dataset
		of, err := owner(at)
		if err != nil {
			return nil, err
		}
		if maker != os.Geteuid() {
			if maker != of {
				return nil, fmt.Errorf("%s belongs to user %d, and the store to user %d", at, of, maker)
			}
			o.NoFollow = true
		}
		if local, err := onThisMachine(at); err != nil || !local {
			return nil, fmt.Errorf("%s lies on no disk of this machine", at)
		}
		return source.Open(at, o)
	})
	if err != nil {
		return nil
	}
	return d
}

func onThisMachine(dir string) (bool, error) {
	f, err := os.Open(dir)
	if err != nil {
		return false, err
	}
	defer f.Close()
	kind, err := mounts.FileSystemOf(int(f.Fd()))
	return kind.Local, err
}

func owner(dir string) (int, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return 0, err
	}
	return int(info.Sys().(*syscall.Stat_t).Uid), nil
}
