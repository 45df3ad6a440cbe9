package mountd

import (
	"fmt"
	"os"
	"syscall"

	"github.com/pipefs/pipefs/internal/mounts"
	"github.com/pipefs/pipefs/internal/source"
	"github.com/pipefs/pipefs/store"
)

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
