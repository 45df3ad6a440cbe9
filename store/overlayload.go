package store

import "slices"

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
