package mounts

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// Check says whether something can be mounted at dir, a resolved path. Where a
// dead mount of ours lies there, dead is true and it has to be unmounted first.
func Check(dir string, nonempty bool) (dead bool, err error) {
	here, err := At(dir)
	if err != nil {
		return false, err
	}
	mounted := here != nil
	info, err := Stat(dir)
	if err == nil && mounted {
		err = Probe(dir)
	}
	switch {
	case mounted && here.Ours() && here.place().Dead(err):
		return true, nil
	case Dead(err) && mounted:
		return false, fmt.Errorf("%s holds a dead %s mount (%w); unmount it first: umount -l %s", dir, here.FSType, err, dir)
	case errors.Is(err, fs.ErrNotExist):
		return false, fmt.Errorf("the mount directory %s does not exist; make it first: mkdir -p %s", dir, dir)
	case errors.Is(err, ErrHung):
		return false, fmt.Errorf("the mount directory %s does not answer: %w; if a dead mount lies there, unmount it first: umount -l %s", dir, err, dir)
	case mounted && here.Ours():
		// before the other errors: a mount of another user answers EACCES, even to root
		return false, fmt.Errorf("%s is already a pipefs mount, of %s; unmount it first (pipefs umount %s) or mount elsewhere", dir, here.Source, dir)
	case err != nil:
		return false, err
	case !info.IsDir():
		return false, fmt.Errorf("%s is not a directory; pipefs mounts on a directory", dir)
	case nonempty:
		return false, nil
	}
	empty, err := Answer(dir, Patience, func() (bool, error) { return isEmpty(dir) })
	if err != nil {
		return false, err
	}
	if !empty {
		return false, fmt.Errorf("the mount directory %s is not empty, and a mount would hide its files; name an empty directory", dir)
	}
	return false, nil
}

func isEmpty(dir string) (bool, error) {
	f, err := os.Open(dir)
	if err != nil {
		return false, err
	}
	defer f.Close()
	_, err = f.Readdirnames(1)
	if errors.Is(err, io.EOF) {
		return true, nil
	}
	return false, err
}

// Apart refuses a mount directory and a dataset that hold each other: the mount
// would list itself without end, or hide what it reads from.
func Apart(dir, dataset string) error {
	switch {
	case Inside(dir, dataset) && Inside(dataset, dir):
		return fmt.Errorf("%s is both what is mounted and where; mounting it over itself would hide it, so take another directory", dir)
	case Inside(dir, dataset):
		return fmt.Errorf("the mount directory %s lies inside %s, and so would list itself without end; take one outside of it", dir, dataset)
	case Inside(dataset, dir):
		return fmt.Errorf("%s lies inside the mount directory %s, which would hide it; take another mount directory", dataset, dir)
	}
	return nil
}
