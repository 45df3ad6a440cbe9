package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"time"
)

// drop removes the packs of which nothing is wanted. It needs no room on the disk
// where there may be none.
func (m *materializing) drop() error {
	stays := func(p *fractionPack) bool { return p.keep() || p.part && p.records == 0 }
	if !slices.ContainsFunc(m.packs, func(p *fractionPack) bool { return !stays(p) }) {
		return nil
	}
	// What is dead in a sealed pack may be so because it lies there, too.
	if err := m.endPart(); err != nil {
		return err
	}
	for _, p := range m.packs {
		if p.live == 0 {
			m.doom = append(m.doom, p)
		}
	}
	return m.sweep()
}

// copyAll copies what is wanted of packs that hold something else, too, and
// removes each of these once the copies are durable.
func (m *materializing) copyAll(ctx context.Context) error {
	for _, p := range m.packs {
		if p.live == 0 || p.keep() {
			continue
		}
		if err := m.copyLive(ctx, p); err != nil {
			return err
		}
		m.doom = append(m.doom, p)
	}
	m.report.Kept = m.live()
	if len(m.doom) > 0 {
		return m.seal()
	}
	return nil
}

func (m *materializing) live() int64 {
	n := int64(0)
	for _, at := range m.at {
		if at != 0 {
			n++
		}
	}
	return n
}

// endPart ends the pack that was taken over: it is sealed, or removed where
// nothing of it is live.
func (m *materializing) endPart() error {
	i := slices.IndexFunc(m.packs, func(p *fractionPack) bool { return p.part })
	if i < 0 {
		return nil
	}
	if m.packs[i].live > 0 {
		return m.sealPart()
	}
	w := m.w
	m.w = nil
	m.report.Dropped += m.packs[i].records
	m.packs = slices.Delete(m.packs, i, i+1)
	return errors.Join(w.f.Close(), m.fs.Remove(w.name()+partSuffix))
}

// copyLive copies what is live of a pack. What turns out to be damaged is
// missing from then on.
func (m *materializing) copyLive(ctx context.Context, p *fractionPack) error {
	var live []location
	var which []int32
	seal, _, err := sealedRecords(m.fs, m.dir, p.number, func(off, _ int64, samples []Sample) {
		if i, ok := m.liveAt(p.number, off, samples); ok && !slices.Contains(which, i) {
			live, which = append(live, locate(p.number, off)), append(which, i)
		}
	})
	if err != nil {
		return err
	}
	f, err := m.fs.Open(filepath.Join(m.dir, packName(p.number)))
	if err != nil {
		return err
	}
	defer f.Close()
	var buf []byte
	for j, at := range live {
		if err := ctx.Err(); err != nil {
			return err
		}
		rec, err := readRecord(f, p.number, at.offset(), seal.Size, &buf)
		var data []byte
		if err == nil {
			data, err = readData(f, rec)
		}
		if errors.Is(err, ErrCorrupt) {
			m.damaged(which[j], err)
			continue
		}
		if err == nil {
			err = m.append(which[j], &record{meta: rec.meta, data: [][]byte{data}, size: rec.at.size})
		}
		if err != nil {
			return err
		}
		m.report.Copied++
		m.o.Progress(m.report.FractionProgress)
	}
	return nil
}

// readData reads and checks the data of a record of one sample.
func readData(f io.ReaderAt, rec scanned) ([]byte, error) {
	if err := verifyRecord(f, rec); err != nil {
		return nil, err
	}
	data := make([]byte, rec.at.size)
	if err := readFull(f, data, rec.at.base); err != nil {
		return nil, corruptAt(rec.at.pack, rec.at.base, rec.samples[0].Path, err)
	}
	return data, nil
}

// append writes a record, to a new pack if need be, and seals that when it is
// full.
func (m *materializing) append(i int32, rec *record) (err error) {
	if m.w == nil {
		if m.next > maxPacks {
			return fmt.Errorf("%s has %d packs: %w; remove the fraction and make it again", m.dir, m.next-1, ErrFull)
		}
		if m.w, err = createPack(m.fs, m.dir, m.next); err != nil {
			return err
		}
		m.next++
		m.lastSync = time.Now()
	}
	off, err := m.w.append(rec)
	if err != nil {
		return err
	}
	m.at[i] = locate(m.w.number, off)
	m.report.Bytes += recordSize(rec)
	if m.w.full(m.o.PackBytes) {
		return m.seal()
	}
	if time.Since(m.lastSync) > syncEvery {
		m.lastSync = time.Now()
		return m.w.sync()
	}
	return nil
}

// seal finishes the pack that is being written; one without records vanishes.
// Then nothing of those that were copied is needed any more.
func (m *materializing) seal() error {
	if w := m.w; w != nil {
		m.w = nil
		if w.count == 0 {
			if err := errors.Join(w.f.Close(), m.fs.Remove(w.name()+partSuffix)); err != nil {
				return err
			}
		} else if _, err := w.seal(); err != nil {
			return err
		}
	}
	return m.sweep()
}

// sweep removes the packs that are doomed, the newest first.
func (m *materializing) sweep() error {
	if len(m.doom) == 0 {
		return nil
	}
	for _, p := range slices.Backward(m.doom) {
		err := m.fs.Remove(filepath.Join(m.dir, packName(p.number)))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		m.report.Dropped += p.records - p.live
	}
	m.doom = nil
	return m.fs.SyncDir(m.dir)
}
