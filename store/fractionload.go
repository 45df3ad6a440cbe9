package store

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
)

// fractionPack is a pack that is there.
type fractionPack struct {
	number  uint32
	size    int64 // bytes
	records int64
	live    int64 // of these, wanted, and nowhere newer
	bytes   int64 // of live records
	part    bool  // it is m.w, unfinished
	damaged bool
}

// keep reports whether the pack stays as it is.
func (p *fractionPack) keep() bool { return p.live > 0 && p.live == p.records && !p.damaged }

// load finds out what is there of what is wanted.
func (m *materializing) load(ctx context.Context) error {
	if _, _, err := m.was(); err != nil {
		return err // a newer version's, say
	}
	m.known = newCatalogue(m.fs, "fraction", m.dir, m.store.o.Logger, 1)
	m.index = make(map[uint64]int32, len(m.wanted))
	m.at = make([]location, len(m.wanted))
	for i := range m.wanted {
		w := &m.wanted[i]
		m.index[m.known.hash(overlayKey{w.Path, w.Source, w.Key})] = int32(i)
	}
	m.next = 1
	sealed, unfinished, err := listPacks(m.fs, m.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	all := slices.Concat(sealed, unfinished)
	slices.Sort(all)
	all = slices.Compact(all)
	for i, n := range all {
		if err := ctx.Err(); err != nil {
			return err
		}
		m.next = n + 1
		if slices.Contains(sealed, n) {
			err = m.loadSealed(n)
		} else {
			err = m.loadPart(n, i == len(all)-1)
		}
		if err != nil {
			return err
		}
	}
	if m.o.Verify {
		if err := m.verify(ctx); err != nil {
			return err
		}
	}
	m.count()
	return nil
}

func (m *materializing) loadSealed(n uint32) error {
	p := &fractionPack{number: n}
	seal, damage, err := sealedRecords(m.fs, m.dir, n, func(off, _ int64, samples []Sample) { m.found(p, off, samples) })
	if err != nil {
		return err
	}
	if damage != nil {
		p.damaged = true
		m.store.o.Logger.Warn("a pack of the fraction is damaged; what holds of it is kept", "fraction", m.dir, "error", damage)
	}
	p.size = seal.Size
	m.packs = append(m.packs, p)
	return nil
}

// loadPart takes over what an interrupted run left. Only the last pack can grow.
func (m *materializing) loadPart(n uint32, last bool) error {
	p := &fractionPack{number: n, part: true}
	var err error
	m.w, err = resumePack(m.fs, m.dir, n, func(rec scanned) error {
		m.found(p, rec.off, rec.samples)
		return nil
	})
	if err != nil {
		return err
	}
	p.size = m.w.size()
	m.packs = append(m.packs, p)
	m.report.Salvaged += p.records
	if !last || m.w.full(m.o.PackBytes) {
		return m.sealPart()
	}
	return nil
}

// sealPart seals the pack that was taken over, or removes it if nothing is in it.
func (m *materializing) sealPart() error {
	i := slices.IndexFunc(m.packs, func(p *fractionPack) bool { return p.part })
	if i < 0 {
		return nil
	}
	p := m.packs[i]
	p.part = false
	if p.records == 0 {
		m.packs = slices.Delete(m.packs, i, i+1)
	}
	return m.seal()
}

// found takes note of a record. Of several that hold the same the newest one
// counts: it is the copy that an interrupted run made.
func (m *materializing) found(p *fractionPack, off int64, samples []Sample) {
	p.records++
	if i, ok := m.which(samples); ok {
		m.at[i] = locate(p.number, off)
	}
}

// which returns the number of the wanted result that a record is.
func (m *materializing) which(samples []Sample) (int32, bool) {
	if len(samples) != 1 || len(samples[0].Representations) != 1 {
		return 0, false
	}
	s := &samples[0]
	i, ok := m.index[m.known.hash(overlayKey{s.Path, s.Source, s.Representations[0].Key})]
	return i, ok
}

// liveAt reports whether the record at a place is the one that counts.
func (m *materializing) liveAt(n uint32, off int64, samples []Sample) (int32, bool) {
	i, ok := m.which(samples)
	return i, ok && m.at[i] == locate(n, off)
}

// count finds out how much of each pack is live.
func (m *materializing) count() {
	packs := map[uint32]*fractionPack{}
	for _, p := range m.packs {
		packs[p.number] = p
		p.live = 0
	}
	for _, at := range m.at {
		if at != 0 {
			packs[at.pack()].live++
		}
	}
	for _, p := range m.packs {
		p.bytes = 0
		if p.records > 0 {
			p.bytes = p.size / p.records * p.live
		}
	}
}

// plan tells what is to be done.
func (m *materializing) plan() FractionPlan {
	var plan FractionPlan
	for _, i := range m.missing() {
		plan.Make = append(plan.Make, m.wanted[i])
	}
	for _, p := range m.packs {
		plan.Keep += p.live
		plan.Drop += p.records - p.live
		plan.KeepBytes += p.bytes
		if !p.keep() && p.live > 0 {
			plan.Copy += p.live
			plan.SpareBytes += p.bytes
		}
	}
	// What was copied goes with every pack that is sealed.
	plan.SpareBytes = min(plan.SpareBytes, 2*m.o.PackBytes)
	return plan
}

// verify reads the data of what is live in sealed packs; what is damaged counts
// as missing. That of an unfinished one was read when it was taken over.
func (m *materializing) verify(ctx context.Context) error {
	for _, p := range m.packs {
		if p.part {
			continue
		}
		f, err := m.fs.Open(filepath.Join(m.dir, packName(p.number)))
		if err != nil {
			return err
		}
		var buf []byte
		for i, at := range m.at {
			if at.pack() != p.number {
				continue
			}
			if err := ctx.Err(); err != nil {
				return errors.Join(err, f.Close())
			}
			rec, err := readRecord(f, p.number, at.offset(), p.size, &buf)
			if err == nil {
				err = verifyRecord(f, rec)
			}
			if err != nil {
				if !errors.Is(err, ErrCorrupt) {
					return errors.Join(err, f.Close())
				}
				m.damaged(int32(i), err)
			}
			m.report.Verified++
			m.o.Progress(m.report.FractionProgress)
		}
		_ = f.Close() // only read
	}
	return nil
}

// damaged makes a result one that is missing.
func (m *materializing) damaged(i int32, cause error) {
	m.at[i] = 0
	m.store.o.Logger.Warn("a result is damaged and made again", "fraction", m.dir, "sample", m.wanted[i].Path, "error", cause)
}
