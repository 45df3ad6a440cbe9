package store

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/pipefs/pipefs/store/vfs"
)

// packLog is the writing end of a directory of packs: records are appended to the
// newest pack, and a full pack is followed by the next one.
type packLog struct {
	fs        vfs.FS
	dir       string
	packBytes int64 // at which a pack is sealed
	// syncs bounds what a power failure can cost an unfinished pack, see syncEvery; else that is all of it.
	syncs  bool
	list   func() (sealed, parts []packName, err error) // nil lists dir
	named  func(packName)                               // is called before a pack gets its name; may be nil
	sealed func(packSeal) error                         // is called for each pack that is sealed; may be nil
	id     func() packID                                // is that of the next pack; nil: it follows from what the pack holds

	w        *packWriter // nil between packs
	next     uint64      // age of the next pack
	lastSync time.Time
	written  int64 // bytes, since it was loaded
	packs    int   // sealed since then
	failed   int64 // bytes of packs that could not be sealed
}

// load finds the packs that are there, the oldest first. It calls whole with the name of
// each that is sealed, and salvaged with each record that it takes over from an unfinished
// one. Only the last pack can grow; others are sealed.
func (l *packLog) load(ctx context.Context, whole func(packName) error, salvaged func(packName, scanned) error) error {
	l.next, l.lastSync = 1, time.Now()
	list := l.list
	if list == nil {
		list = func() ([]packName, []packName, error) { return listPacks(l.fs, l.dir) }
	}
	sealed, parts, err := list()
	if err != nil {
		return err
	}
	names := slices.Concat(sealed, parts)
	slices.SortFunc(names, packName.compare)
	for i, n := range names {
		if err := ctx.Err(); err != nil {
			return err
		}
		l.next = n.age + 1
		if n.id != (packID{}) {
			err = whole(n)
		} else {
			l.w, err = resumePack(l.fs, l.dir, n.age, func(rec scanned) error { return salvaged(n, rec) })
			if err == nil && (i < len(names)-1 || l.w.full(l.packBytes)) {
				err = l.seal()
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// begin makes sure that there is a pack to write to.
func (l *packLog) begin() (err error) {
	if l.w != nil {
		return nil
	}
	if l.next > maxPacks {
		return fmt.Errorf("%s has %d packs: %w", l.dir, l.next-1, ErrFull)
	}
	if l.w, err = createPack(l.fs, l.dir, l.next); err != nil {
		return err
	}
	l.next++
	l.lastSync = time.Now()
	return nil
}

// append writes a record. Call advance then.
func (l *packLog) append(rec *record) (location, error) {
	if err := l.begin(); err != nil {
		return 0, err
	}
	off, err := l.w.append(rec)
	if err != nil {
		return 0, err
	}
	l.count(rec)
	return locate(uint32(l.w.age), off), nil
}

func (l *packLog) count(rec *record) { l.written += rec.length() }

// advance seals the pack if it is full, and makes it durable now and then.
func (l *packLog) advance() error {
	switch {
	case l.w.full(l.packBytes):
		return l.seal()
	case l.syncs && time.Since(l.lastSync) > syncEvery:
		l.lastSync = time.Now()
		return l.w.sync()
	}
	return nil
}

// seal finishes the pack that is being written; one without records vanishes.
func (l *packLog) seal() error {
	w := l.w
	if w == nil {
		return nil
	}
	l.w = nil
	if w.count == 0 {
		return w.discard()
	}
	if l.id != nil {
		w.id = l.id()
	}
	s, err := w.seal(l.named)
	if err != nil {
		l.failed += w.end
		return err
	}
	l.written += headerSize + s.Size - w.end
	l.packs++
	if l.sealed != nil {
		return l.sealed(s)
	}
	return nil
}

// close leaves the pack that is being written unfinished, for the next run.
func (l *packLog) close() error {
	if l.w == nil {
		return nil
	}
	w := l.w
	l.w = nil
	return w.close()
}
