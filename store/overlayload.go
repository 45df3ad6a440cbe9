package store

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/pipefs/pipefs/store/vfs"
)

// load finds out what the packs hold.
func (v *Overlay) load() error {
	sealed, unfinished, err := listPacks(v.o.FS, v.dir)
	if err != nil {
		return err
	}
	all := slices.Concat(sealed, unfinished)
	slices.Sort(all)
	for i, n := range slices.Compact(all) {
		v.next = n
		v.pool.add(n, nil)
		if slices.Contains(unfinished, n) && !slices.Contains(sealed, n) {
			err = v.resume(n, i == len(all)-1)
		} else {
			err = v.loadSealed(n)
		}
		if err != nil {
			return err
		}
	}
	v.next++
	v.total.Store(v.bytes())
	return nil
}

func (v *Overlay) loadSealed(n uint32) error {
	seal, _, err := v.catalogue.loadSealed(n)
	v.sealed += seal.Size
	return err
}

// resume takes over an unfinished pack; only the last one can grow.
func (v *Overlay) resume(n uint32, last bool) error {
	w, err := resumePack(v.o.FS, v.dir, n, func(rec scanned) error {
		v.know(n, rec.off, rec.samples)
		return nil
	})
	if err != nil {
		return err
	}
	v.w = w
	if !last || w.full(v.o.PackBytes) {
		return v.seal()
	}
	return nil
}

// OverlayKeys counts the bytes that the overlay in dir holds under each key. It locks
// nothing: what is written meanwhile may be missing.
func OverlayKeys(dir string) (map[string]int64, error) {
	keys := map[string]int64{}
	count := func(samples []Sample) {
		for i := range samples {
			for j := range samples[i].Representations {
				r := &samples[i].Representations[j]
				keys[r.Key] += r.Size(0)
			}
		}
	}
	sealed, unfinished, err := listPacks(vfs.OS, dir)
	if errors.Is(err, fs.ErrNotExist) { // nothing was kept so far
		return keys, nil
	}
	for _, n := range sealed {
		if err == nil {
			_, _, err = sealedRecords(vfs.OS, dir, n, func(_, _ int64, samples []Sample) { count(samples) })
		}
	}
	for _, n := range unfinished {
		if err == nil && !slices.Contains(sealed, n) {
			err = unfinishedRecords(dir, n, count)
		}
	}
	return keys, err
}

func unfinishedRecords(dir string, n uint32, each func([]Sample)) error {
	f, err := vfs.OS.Open(filepath.Join(dir, packName(n)+partSuffix))
	if errors.Is(err, fs.ErrNotExist) { // it was finished, or removed
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return err
	}
	for rec, err := range scan(f, n, size, false) {
		if err != nil {
			break // what is being written
		}
		each(rec.samples)
	}
	return nil
}
