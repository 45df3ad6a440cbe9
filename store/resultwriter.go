package store

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"slices"
	"sync"

	"github.com/pipefs/pipefs/store/vfs"
	"github.com/pipefs/pipefs/transcode"
)

// resultWriter writes results, and gives back the space of those that are not found.
type resultWriter struct {
	*results

	mu     sync.Mutex // of what follows
	out    packLog
	packs  map[uint32]resultPack // that are sealed, by age
	sealed int64                 // bytes of these
	dead   error                 // why nothing can be written any more
}

type resultPack struct {
	name    packName
	size    int64 // bytes
	records int64
	damaged bool
}

func newResultWriter(r *results, packBytes int64) *resultWriter {
	w := &resultWriter{results: r, packs: map[uint32]resultPack{}}
	w.out = packLog{fs: r.fs, dir: r.dir, packBytes: min(packBytes, maxPackBytes), named: func(n packName) {
		w.pool.named(byAge(n))
	}, sealed: func(s packSeal) error {
		w.add(resultPack{name: s.name(), size: s.Size, records: s.Records})
		return nil
	}}
	return w
}

func (w *resultWriter) add(p resultPack) {
	w.packs[uint32(p.name.age)] = p
	w.sealed += p.size
}

// load finds out what the packs hold. It returns how many records were taken over from
// an unfinished one.
func (w *resultWriter) load(ctx context.Context) (salvaged int64, err error) {
	err = w.out.load(ctx, func(n packName) error {
		w.pool.add(byAge(n), nil)
		records := int64(0)
		seal, whole, err := w.eachRecord(n, func(rec scanned) { records++; w.know(rec) })
		if err == nil {
			w.add(resultPack{n, seal.Size, records, !whole})
		}
		return err
	}, func(n packName, rec scanned) error {
		salvaged++
		w.pool.add(byAge(n), nil)
		w.know(rec)
		return nil
	})
	if w.out.w != nil {
		w.pool.add(byAge(w.out.w.name()), nil)
	}
	return salvaged, err
}

// resultRecord is a record that holds one result.
func resultRecord(k resultKey, info transcode.Info, s transcode.Split) (*record, error) {
	it, err := newItem(Sample{Path: k.path, Kind: File, Source: k.src}, Encoded{
		Info: info, Representations: []EncodedRepresentation{{Key: k.key, Split: s}},
	})
	if err != nil {
		return nil, err
	}
	return layOut([]*item{it})
}

// put appends a result, and says where. Call place then, and advance of the log.
func (w *resultWriter) put(rec *record) (location, error) {
	if w.dead != nil {
		return 0, w.dead
	}
	if w.out.w == nil {
		w.pool.add(byAge(packName{age: w.out.next}), nil)
	}
	return w.out.append(rec)
}

// bytes is what all packs take on disk, once the last one is sealed.
func (w *resultWriter) bytes() int64 {
	n := w.sealed + w.out.failed
	if w.out.w != nil {
		n += w.out.w.size()
	}
	return n
}

// packUse is what a pack holds.
type packUse struct {
	resultPack
	live liveIn
	part bool // it is being written
}

// whole reports whether all that the pack holds is found.
func (p *packUse) whole() bool { return p.live.records == p.records && !p.damaged }

// use describes all packs, in ascending order.
func (w *resultWriter) use() []packUse {
	live := w.byPack()
	var all []packUse
	for n, p := range w.packs {
		all = append(all, packUse{resultPack: p, live: live[n]})
	}
	if p := w.out.w; p != nil {
		all = append(all, packUse{resultPack: resultPack{name: p.name(), size: p.size(), records: p.count}, live: live[uint32(p.age)], part: true})
	}
	slices.SortFunc(all, func(a, b packUse) int { return a.name.compare(b.name) })
	return all
}

// eachLive calls f with each record of a sealed pack that is found and whose data holds.
// What is damaged is forgotten.
func (w *resultWriter) eachLive(ctx context.Context, n packName, f func(file vfs.File, k resultKey, rec scanned) error) error {
	type found struct {
		k   resultKey
		off int64
	}
	var live []found
	seal, _, err := w.eachRecord(n, func(rec scanned) {
		if k, ok := w.liveKey(&rec); ok {
			live = append(live, found{k, rec.off})
		}
	})
	if err != nil || len(live) == 0 {
		return err
	}
	file, err := w.fs.Open(filepath.Join(w.dir, n.String()))
	if err != nil {
		return err
	}
	defer file.Close()
	var buf []byte
	for _, is := range live {
		if err := ctx.Err(); err != nil {
			return err
		}
		rec, err := readRecord(file, byAge(n), is.off, seal.Size, &buf)
		if err == nil {
			err = verifyRecord(file, n, rec)
		}
		if errors.Is(err, ErrCorrupt) {
			w.warn(uint32(n.age), err)
			if at, ok := w.find(is.k); ok && at == locate(uint32(n.age), is.off) {
				w.forget(is.k)
			}
			continue
		}
		if err == nil {
			err = f(file, is.k, rec)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// move is a result that was copied.
type move struct {
	k        resultKey
	from, to location
	bytes    int64
}

// copyLive copies what is found of a sealed pack to the end of the log. It is found there
// once the moves are given to moved.
func (w *resultWriter) copyLive(ctx context.Context, n packName) ([]move, error) {
	var moves []move
	err := w.eachLive(ctx, n, func(file vfs.File, k resultKey, rec scanned) error {
		data := make([]byte, rec.at.size)
		if err := readFull(file, data, rec.at.base); err != nil {
			return corruptAt(n, rec.at.base, k.path, err)
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		if at, ok := w.find(k); !ok || at != rec.location() {
			return nil // superseded meanwhile
		}
		to, err := w.put(&record{meta: rec.meta, data: [][]byte{data}, size: rec.at.size})
		if err != nil {
			return err
		}
		moves = append(moves, move{k, rec.location(), to, rec.bytes()})
		return w.out.advance()
	})
	return moves, err
}

// moved lets results be found where they were copied to.
func (w *resultWriter) moved(moves []move) {
	for _, m := range moves {
		if at, ok := w.find(m.k); ok && at == m.from { // else it was superseded meanwhile
			w.place(m.k, m.to, m.bytes)
		}
	}
}

// compact removes the packs that are wasteful. What is found of them is copied before, and
// each is removed once its copies are in sealed packs. removed gets how many results and
// bytes were copied. Once ctx has ended nothing waits for the disk: copies count for nothing
// until their pack is removed.
func (w *resultWriter) compact(ctx context.Context, wasteful func(*packUse) bool, removed func(p *packUse, results, bytes int64)) error {
	type emptied struct {
		packUse
		moves []move
	}
	remove := func(packs ...emptied) error {
		for _, p := range packs {
			if err := ctx.Err(); err != nil {
				return err
			}
			w.moved(p.moves)
			if err := w.remove(p.name); err != nil {
				return err
			}
			bytes := int64(0)
			for _, m := range p.moves {
				bytes += m.bytes
			}
			removed(&p.packUse, int64(len(p.moves)), bytes)
		}
		return nil
	}
	// First those of which nothing is found, while no other goroutine can add to one. The
	// newest goes first, so that no older result takes the place of one after a crash.
	var live, copied []emptied
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range slices.Backward(w.use()) {
		switch {
		case !wasteful(&p):
		case p.live.records > 0:
			live = append(live, emptied{packUse: p})
		default:
			if err := remove(emptied{packUse: p}); err != nil {
				return err
			}
		}
	}
	for _, p := range live {
		if err := ctx.Err(); err != nil {
			return err
		}
		if p.part { // it is the first one, so that no copy goes to a pack that is removed
			if err := w.out.seal(); err != nil {
				return err
			}
			p.name = w.packs[uint32(p.name.age)].name
		}
		sealed := w.out.packs
		w.mu.Unlock()
		moves, err := w.copyLive(ctx, p.name)
		w.mu.Lock()
		if err != nil {
			return err
		}
		if w.out.packs > sealed { // with all that was copied before p
			if err := remove(copied...); err != nil {
				return err
			}
			copied = nil
		}
		p.moves = moves
		copied = append(copied, p)
	}
	if len(copied) == 0 {
		return nil
	}
	if err := cmp.Or(w.dead, ctx.Err()); err != nil {
		return err
	}
	if err := w.out.seal(); err != nil {
		return err
	}
	return remove(copied...)
}

// remove removes a pack of which nothing is found. It needs no space on the disk, where
// there may be none.
func (w *resultWriter) remove(n packName) (err error) {
	if w.dead != nil {
		return w.dead
	}
	number := uint32(n.age)
	w.pool.retire(number)
	if out := w.out.w; out != nil && out.age == n.age {
		w.out.w = nil
		err = out.discard()
	} else if err = removeAny(w.fs, filepath.Join(w.dir, n.String())); err == nil {
		w.sealed -= w.packs[number].size
		delete(w.packs, number)
	}
	return errors.Join(err, w.fs.SyncDir(w.dir))
}
