package store

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/pipefs/pipefs/store/vfs"
)

// committedFile says which packs of a plan count. It lies with them, so that a generation
// can be made again.
type committedFile struct {
	Magic   string       `json:"magic"`
	Version int          `json:"version"`
	Plan    packID       `json:"plan"`
	Base    string       `json:"base"` // the generation that the plan was made against
	Packs   []SealedPack `json:"packs"`
}

const (
	committedName    = "COMMITTED"
	committedMagic   = "pipefs plan committed"
	committedVersion = 1
)

func committedPath(plan packID) string {
	return filepath.Join(packName{plan: plan}.dir(), committedName)
}

// plansOf returns the plans that a store has a directory of.
func plansOf(fsys vfs.FS, dir string) (plans []packID, err error) {
	names, err := fsys.List(filepath.Join(dir, plansName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, name := range names {
		var id packID
		if id.UnmarshalText([]byte(name)) == nil && fmt.Sprintf("%x", id) == name {
			plans = append(plans, id)
		}
	}
	return plans, err
}

// readCommitted reads which packs of a plan count. The error is of the class fs.ErrNotExist
// where the plan is not committed.
func readCommitted(fsys vfs.FS, dir string, plan packID) (*committedFile, error) {
	c := &committedFile{}
	name := committedPath(plan)
	_, err := readText(fsys, filepath.Join(dir, name), c)
	var bad *CorruptError
	switch {
	case errors.As(err, &bad):
		return nil, &CorruptError{Path: name, Cause: fmt.Errorf("%w; pipefs commit of this plan writes it again", bad.Cause)}
	case err != nil:
		return nil, err
	case c.Magic != committedMagic || c.Plan != plan:
		return nil, &CorruptError{Path: name, Cause: errors.New("of something else; pipefs commit of this plan writes it again")}
	case c.Version != committedVersion:
		return nil, fmt.Errorf("%s: of version %d, and this pipefs reads %d: %w", name, c.Version, committedVersion, ErrVersion)
	}
	return c, nil
}

// listStored returns the packs of a store, the oldest first: those in packs, and the sealed
// ones of plans that are committed.
func listStored(fsys vfs.FS, dir string) (sealed, unfinished []packName, err error) {
	sealed, unfinished, err = listPacks(fsys, filepath.Join(dir, packsName))
	if errors.Is(err, fs.ErrNotExist) { // all may be of plans
		if names, listed := fsys.List(filepath.Join(dir, plansName)); listed == nil && len(names) > 0 {
			err = nil
		}
	}
	if err != nil {
		return nil, nil, err
	}
	plans, err := plansOf(fsys, dir)
	if err != nil {
		return nil, nil, err
	}
	for _, plan := range plans {
		c, err := readCommitted(fsys, dir, plan)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		of := make([]packName, len(c.Packs))
		for i := range c.Packs {
			of[i] = c.Packs[i].name()
		}
		if of, err = present(fsys, dir, plan, of); err != nil {
			return nil, nil, err
		}
		sealed = append(sealed, of...)
	}
	slices.SortFunc(sealed, packName.compare)
	return sealed, unfinished, nil
}

// listCounting is listStored without the packs that the current generation says are replaced.
func listCounting(fsys vfs.FS, dir string) (sealed, unfinished []packName, err error) {
	sealed, unfinished, err = listStored(fsys, dir)
	g, broken := readGeneration(fsys, dir)
	if broken != nil { // the packs say it
		g = nil
	}
	return g.counting(sealed), unfinished, err
}

// present are those of some packs of a plan that are there. Others may have taken their
// place, and they were removed since.
func present(fsys vfs.FS, dir string, plan packID, packs []packName) (there []packName, err error) {
	all, _, err := listPacks(fsys, filepath.Join(dir, packName{plan: plan}.dir(), packsName))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return slices.DeleteFunc(packs, func(n packName) bool {
		n.plan = packID{} // a listing does not know it
		_, is := slices.BinarySearchFunc(all, n, packName.compare)
		return !is
	}), nil
}
