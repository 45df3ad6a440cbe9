package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/pipefs/pipefs/store/vfs"
	"github.com/pipefs/pipefs/transcode"
)

// OverlayOptions says how an overlay is opened. The zero value is a good choice.
type OverlayOptions struct {
	FS     vfs.FS       // nil means vfs.OS
	Logger *slog.Logger // nil means slog.Default
	// MaxBytes is the budget for all packs, in bytes; 0 means no budget.
	MaxBytes int64
	// Reserve is asked before the packs hold so many bytes; an error says that there is no
	// space, for now. Nil means that there always is.
	Reserve func(bytes int64) error
	// PackBytes is the size at which a pack is sealed; 0 means 64 MiB.
	PackBytes int64
	// MaxOpenPacks is as in Options.
	MaxOpenPacks int
}

// Overlay is a private store that grows while it is used. It is safe for
// concurrent use. It takes some 40 bytes of memory a representation.
type Overlay struct {
	*resultWriter
	o    OverlayOptions
	lock io.Closer

	total     atomic.Int64  // bytes
	reclaimed atomic.Int64  // bytes, since it was opened
	wasteful  chan struct{} // gets a value when more is outdated than is of use
	refused   atomic.Bool   // there was no space
}

const overlayPackBytes = 64 << 20

// OpenOverlay opens the overlay in dir, made if need be. ErrLocked says that
// another process has it open.
func OpenOverlay(dir string, o OverlayOptions) (*Overlay, error) {
	if o.FS == nil {
		o.FS = vfs.OS
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	v := &Overlay{o: o, wasteful: make(chan struct{}, 1)}
	if err := o.FS.MkdirAll(dir); err != nil {
		return nil, err
	}
	var err error
	if v.lock, err = lockDir(o.FS, dir); err != nil {
		return nil, err
	}
	if err = v.open(dir); errors.Is(err, ErrVersion) {
		o.Logger.Info("what another version of pipefs kept is discarded", "overlay", dir)
		err = errors.Join(v.out.close(), v.removeAll())
		if err == nil {
			err = v.open(dir)
		}
	}
	if err != nil {
		return nil, errors.Join(err, v.Close())
	}
	v.total.Store(v.bytes())
	return v, nil
}

func (v *Overlay) open(dir string) error {
	o := Options{FS: v.o.FS, Logger: v.o.Logger, MaxOpenPacks: v.o.MaxOpenPacks}
	v.resultWriter = newResultWriter(newResults("overlay", dir, o), positive(v.o.PackBytes, overlayPackBytes))
	names, err := v.packFiles()
	for _, name := range names {
		if _, ok := parsePackName(name); !ok {
			err = errors.Join(err, fmt.Errorf("%s: %w", name, ErrVersion))
		}
	}
	if err == nil {
		_, err = v.load(context.Background())
	}
	return err
}

// packFiles are the names of all files that are packs, of whatever version.
func (v *Overlay) packFiles() ([]string, error) {
	names, err := v.fs.List(v.dir)
	return slices.DeleteFunc(names, func(name string) bool {
		return filepath.Ext(strings.TrimSuffix(name, partSuffix)) != packSuffix
	}), err
}

// removeAll removes all packs.
func (v *Overlay) removeAll() error {
	names, err := v.packFiles()
	for _, name := range names {
		err = errors.Join(err, v.fs.Remove(filepath.Join(v.dir, name)))
	}
	return err
}

// Info returns the info of the sample that Put got with that representation; ok is false
// where Get finds nothing.
func (v *Overlay) Info(path string, src Identity, key string) (info transcode.Info, ok bool) {
	s, err := v.sample(resultKey{path, src, key})
	if err != nil {
		return transcode.Info{}, false // Get returns the error
	}
	return s.Info, true
}

// Put stores a representation; one that is stored already costs nothing. It supersedes
// what is stored of the same path and steps under another version of the file, or of the
// steps. A Get in this process finds it at once; it survives the death of the process,
// and that of the machine once its pack is sealed. ErrFull says that the budget or the
// disk is used up.
func (v *Overlay) Put(path string, src Identity, info transcode.Info, key string, s transcode.Split) error {
	if _, err := v.Get(path, src, key); err == nil || !errors.Is(err, ErrNotFound) {
		return err
	}
	k := resultKey{path, src, key}
	rec, err := resultRecord(k, info, s)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.dead != nil {
		return v.dead
	}
	size := rec.length() + int64(len(rec.meta)) // the footer repeats the entries
	if err := v.reserve(v.bytes() + size); err != nil {
		v.refused.Store(true)
		return err
	}
	at, err := v.put(rec)
	if err != nil {
		return v.failed(err)
	}
	v.place(k, at, size)
	// The record itself is there. Where the disk is full, the next Put returns that.
	if err := v.out.advance(); err != nil && !diskFull(err) {
		v.log.Warn("an overlay's pack stays unfinished", "overlay", v.dir, "error", err)
		v.dead = err
	}
	v.total.Store(v.bytes())
	if v.bytes() > 2*v.liveBytes() {
		select {
		case v.wasteful <- struct{}{}:
		default:
		}
	}
	return nil
}

// reserve fails with ErrFull where the packs may not hold so many bytes.
func (v *Overlay) reserve(bytes int64) error {
	if v.o.MaxBytes > 0 && bytes > v.o.MaxBytes {
		return fmt.Errorf("the overlay's budget of %d bytes: %w", v.o.MaxBytes, ErrFull)
	}
	if v.o.Reserve == nil {
		return nil
	}
	if err := v.o.Reserve(bytes); err != nil {
		return fmt.Errorf("%w: %w", ErrFull, err)
	}
	return nil
}

// failed decides what a failed write means. Space on a disk comes and goes, and
// what was not written can be cut off; after anything else the overlay is only
// read.
func (v *Overlay) failed(err error) error {
	if errors.Is(err, ErrFull) {
		return err
	}
	if !diskFull(err) {
		v.dead = fmt.Errorf("the overlay is only read from now on: %w", err)
		return v.dead
	}
	if w := v.out.w; w != nil {
		_ = w.f.Truncate(w.end) // else the next record overwrites it
		w.err = nil
	}
	return fmt.Errorf("%w: %w", ErrFull, err)
}

// diskFull reports whether a write failed for want of space.
func diskFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// Bytes is what the overlay's packs take on disk. It does not wait for a Put.
func (v *Overlay) Bytes() int64 { return v.total.Load() }

// Close makes everything durable and lets go of the overlay. Its readers fail
// from then on.
func (v *Overlay) Close() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	err := v.out.close()
	v.dead = ErrClosed
	v.pool.close()
	if v.lock != nil {
		err = errors.Join(err, v.lock.Close())
		v.lock = nil
	}
	return err
}

// OverlayKeys counts the bytes that the overlay in dir holds under each key, what is
// superseded included. It locks nothing: what is written meanwhile may be missing.
func OverlayKeys(dir string) (map[string]int64, error) {
	keys := map[string]int64{}
	count := func(rec scanned) {
		for i := range rec.samples {
			for j := range rec.samples[i].Representations {
				r := &rec.samples[i].Representations[j]
				keys[r.Key] += r.Size(0)
			}
		}
	}
	sealed, unfinished, err := listPacks(vfs.OS, dir)
	if errors.Is(err, fs.ErrNotExist) { // nothing was kept so far
		return keys, nil
	}
	r := newResults("overlay", dir, Options{FS: vfs.OS, Logger: slog.Default()})
	for _, n := range sealed {
		if err == nil {
			_, _, err = r.eachRecord(n, count)
		}
	}
	for _, n := range unfinished {
		if err == nil {
			err = r.eachUnfinished(n, count)
		}
	}
	return keys, err
}

// recheckAfter is how long an overlay that is full waits before it asks again which of
// its results are current.
const recheckAfter = time.Hour

// Tend reclaims space until ctx ends: at once, whenever more of the overlay is stale than
// is of use, and now and then while it is full. See [Overlay.Reclaim].
func (v *Overlay) Tend(ctx context.Context, current func(path string, src Identity, key string) bool) {
	again := time.NewTicker(recheckAfter)
	defer again.Stop()
	check := current
	for {
		if err := v.Reclaim(ctx, check); err != nil && ctx.Err() == nil {
			v.log.Warn("space of the overlay could not be reclaimed", "overlay", v.dir, "cause", err)
		}
		check = nil
		select {
		case <-ctx.Done():
			return
		case <-v.wasteful:
		case <-again.C:
			if v.refused.Swap(false) {
				check = current
			}
		}
	}
}

// Reclaim gives back the space of results that cannot be asked for any more: those that
// were superseded (see [Overlay.Put]), and those that current, where it is not nil, says
// are not. A pack of which less than half is of use is removed after the rest of it was
// copied, so that no more is stale than is of use. The copies may exceed the budget, by
// half a pack at most, until the pack is removed.
func (v *Overlay) Reclaim(ctx context.Context, current func(path string, src Identity, key string) bool) error {
	before, stale := v.Reclaimed(), int64(0)
	for _, p := range v.packsNow() {
		if current == nil || ctx.Err() != nil {
			break
		}
		forget := func(rec scanned) {
			if ctx.Err() != nil {
				return
			}
			for k := range rec.keys {
				if at, ok := v.find(k); ok && at == rec.location() && !current(k.path, k.src, k.key) {
					v.forget(k)
					stale++
				}
			}
		}
		var err error
		if p.part {
			err = v.eachUnfinished(p.name, forget)
		} else {
			_, _, err = v.eachRecord(p.name, forget)
		}
		if err != nil {
			return err
		}
	}
	err := v.compact(ctx, func(p *packUse) bool { return p.records > 0 && 2*p.live.bytes < p.size }, func(p *packUse, _, copied int64) {
		v.reclaimed.Add(p.size - copied)
	})
	v.mu.Lock()
	v.total.Store(v.bytes())
	if err != nil && ctx.Err() == nil {
		err = v.failed(err)
	}
	v.mu.Unlock()
	if bytes := v.Reclaimed() - before; bytes > 0 || stale > 0 {
		if v.o.Reserve != nil {
			_ = v.o.Reserve(v.Bytes()) // so that other mounts can have it
		}
		v.log.Info("space is reclaimed of results that nothing can ask for any more", "overlay", v.dir, "bytes", bytes, "left", v.Bytes(), "outdated", stale)
	}
	return err
}

func (v *Overlay) packsNow() []packUse {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.use()
}

// Reclaimed is how many bytes were reclaimed since the overlay was opened.
func (v *Overlay) Reclaimed() int64 { return v.reclaimed.Load() }
