package store

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/pipefs/pipefs/store/vfs"
	"github.com/pipefs/pipefs/transcode"
)

// OverlayOptions says how an overlay is opened. The zero value is a good choice.
type OverlayOptions struct {
	FS     vfs.FS       // nil means vfs.OS
	Logger *slog.Logger // nil means slog.Default
	// MaxBytes is the budget for all packs, in bytes; 0 means no budget.
	MaxBytes int64
	// Room is asked before the packs hold so many bytes; an error says that there is no
	// room, for now. Nil means that there always is.
	Room func(bytes int64) error
	// PackBytes is the size at which a pack is sealed; 0 means 64 MiB.
	PackBytes int64
	// VerifyOnce and MaxOpenPacks are as in Options.
	VerifyOnce   bool
	MaxOpenPacks int
}

// Overlay is a private store that grows while it is used. It is safe for
// concurrent use. It takes some 30 bytes of memory a representation.
type Overlay struct {
	*catalogue
	o    OverlayOptions
	lock io.Closer

	write  sync.Mutex
	w      *packWriter // nil between packs
	next   uint32
	sealed int64 // bytes of packs that do not grow any more
	dead   error // why nothing can be written any more
	total  atomic.Int64
}

// OpenOverlay opens the overlay in dir, made if need be. ErrLocked says that
// another process has it open.
func OpenOverlay(dir string, o OverlayOptions) (*Overlay, error) {
	if o.FS == nil {
		o.FS = vfs.OS
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.PackBytes <= 0 {
		o.PackBytes = 64 << 20
	}
	o.PackBytes = min(o.PackBytes, maxPackBytes)
	v := &Overlay{o: o, catalogue: newCatalogue(o.FS, "overlay", dir, o.Logger, o.MaxOpenPacks)}
	if err := o.FS.MkdirAll(dir); err != nil {
		return nil, err
	}
	var err error
	if v.lock, err = o.FS.Lock(filepath.Join(dir, lockName)); err != nil {
		if errors.Is(err, vfs.ErrLocked) {
			err = fmt.Errorf("%s: %w", dir, ErrLocked)
		}
		return nil, err
	}
	if err := v.load(); err != nil {
		return nil, errors.Join(err, v.Close())
	}
	return v, nil
}

// Get finds what Put stored for that version of the file; ErrNotFound where
// there is nothing, or nothing that holds.
func (v *Overlay) Get(path string, src Identity, key string) (Representation, error) {
	rep, err := v.get(overlayKey{path, src, key})
	if errors.Is(err, ErrCorrupt) {
		v.log.Warn("an overlay's record is damaged and forgotten", "overlay", v.dir, "sample", path, "error", err)
		v.Forget(path, src, key)
		err = fmt.Errorf("%w: %w", ErrNotFound, err)
	}
	return rep, err
}

// Info tells what Put was told of the sample together with that representation;
// ok is false where Get finds nothing.
func (v *Overlay) Info(path string, src Identity, key string) (info transcode.Info, ok bool) {
	s, err := v.sample(overlayKey{path, src, key})
	if err != nil {
		return transcode.Info{}, false // Get tells why
	}
	return s.Info, true
}

// Forget makes Get find nothing, so that the representation is made again: for
// a caller whose Reader found it corrupt. What it took on disk is not given back.
func (v *Overlay) Forget(path string, src Identity, key string) {
	v.forget(overlayKey{path, src, key})
}

// Put stores a representation; one that is stored already costs nothing. A Get
// in this process finds it at once; it survives the death of the process, and
// that of the machine once its pack is sealed. ErrFull says that the budget or
// the disk is used up.
func (v *Overlay) Put(path string, src Identity, info transcode.Info, key string, s transcode.Split) error {
	if _, err := v.Get(path, src, key); err == nil || !errors.Is(err, ErrNotFound) {
		return err
	}
	it, err := newItem(Sample{Path: path, Kind: File, Source: src}, Encoded{
		Info: info, Representations: []EncodedRepresentation{{Key: key, Split: s}},
	})
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	rec, err := layOut([]*item{it})
	if err != nil {
		return err
	}
	v.write.Lock()
	defer v.write.Unlock()
	if v.dead != nil {
		return v.dead
	}
	if v.o.MaxBytes > 0 && v.bytes()+recordSize(rec) > v.o.MaxBytes {
		return fmt.Errorf("the overlay's budget of %d bytes: %w", v.o.MaxBytes, ErrFull)
	}
	if v.o.Room != nil {
		if err := v.o.Room(v.bytes() + recordSize(rec)); err != nil {
			return fmt.Errorf("%w: %w", ErrFull, err)
		}
	}
	off, err := v.append(rec)
	if err != nil {
		return err
	}
	v.place(overlayKey{path, src, key}, v.w.number, off)
	if v.w.full(v.o.PackBytes) {
		// The record itself is there. That the disk is full the next Put tells.
		if err := v.seal(); err != nil && !diskFull(err) {
			v.o.Logger.Warn("an overlay's pack stays unfinished", "overlay", v.dir, "error", err)
			v.dead = err
		}
	}
	v.total.Store(v.bytes())
	return nil
}

// append writes a record, to a new pack if need be.
func (v *Overlay) append(rec *record) (off int64, err error) {
	if v.w == nil {
		if v.next > maxPacks {
			return 0, fmt.Errorf("the overlay has %d packs: %w", v.next-1, ErrFull)
		}
		w, err := createPack(v.o.FS, v.dir, v.next)
		if err != nil {
			return 0, v.failed(err)
		}
		v.w = w
		v.pool.add(v.next, nil)
		v.next++
	}
	if off, err = v.w.append(rec); err != nil {
		return 0, v.failed(err)
	}
	return off, nil
}

// failed decides what a failed write means. Room on a disk comes and goes, and
// what was not written can be cut off; after anything else the overlay is only
// read.
func (v *Overlay) failed(err error) error {
	if !diskFull(err) {
		v.dead = fmt.Errorf("the overlay is only read from now on: %w", err)
		return v.dead
	}
	if v.w != nil {
		_ = v.w.f.Truncate(v.w.end) // else the next record overwrites it
		v.w.err = nil
	}
	return fmt.Errorf("%w: %w", ErrFull, err)
}

// diskFull reports whether a write failed for want of room.
func diskFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// seal finishes the pack that is being written.
func (v *Overlay) seal() error {
	w := v.w
	v.w = nil
	s, err := w.seal()
	v.sealed += max(s.Size, w.end)
	return err
}

// Reader opens a representation at a level; 0 is the whole.
func (v *Overlay) Reader(rep Representation, level int) (*Reader, error) {
	return v.pool.reader(rep, level, v.o.VerifyOnce)
}

// Bytes is what the overlay's packs take on disk. It does not wait for a Put.
func (v *Overlay) Bytes() int64 { return v.total.Load() }

func (v *Overlay) bytes() int64 {
	n := v.sealed
	if v.w != nil {
		n += v.w.size()
	}
	return n
}

// Close makes everything durable and lets go of the overlay. Its readers fail
// from then on.
func (v *Overlay) Close() error {
	v.write.Lock()
	defer v.write.Unlock()
	var err error
	if v.w != nil {
		err = v.w.close()
		v.w = nil
	}
	v.dead = ErrClosed
	v.pool.close()
	if v.lock != nil {
		err = errors.Join(err, v.lock.Close())
		v.lock = nil
	}
	return err
}

// Has reports whether Get will, as far as memory tells, find something.
func (v *Overlay) Has(path string, src Identity, key string) bool {
	_, ok := v.find(overlayKey{path, src, key})
	return ok
}
