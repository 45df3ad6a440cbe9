package store

import (
	"errors"
	"path/filepath"
	"slices"
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
	return nil
}

func (v *Overlay) loadSealed(n uint32) error {
	f, err := v.o.FS.Open(filepath.Join(v.dir, packName(n)))
	if err != nil {
		return err
	}
	defer f.Close()
	seal, records, err := readFooter(f, n)
	v.sealed += seal.Size
	for _, r := range records {
		var samples []Sample
		if samples, err = decodeRecord(r.meta, r.at); err != nil {
			err = corruptAt(n, r.metaOff, "", err)
			break
		}
		v.know(n, r.off, samples)
	}
	if err == nil {
		return nil
	}
	if !errors.Is(err, ErrCorrupt) {
		return err
	}
	// Nothing here cannot be made again: what still holds is used.
	v.o.Logger.Warn("an overlay's pack is damaged; what holds of it is used", "overlay", v.dir, "error", err)
	for rec, err := range scan(f, n, seal.Size, false) {
		if err != nil {
			break
		}
		v.know(n, rec.off, rec.samples)
	}
	return nil
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
