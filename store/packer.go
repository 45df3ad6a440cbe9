package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	sorted "github.com/pipefs/pipefs/internal/index"
	"github.com/pipefs/pipefs/store/vfs"
)

// packer is one run of Pack.
type packer struct {
	dir    string
	src    Source
	enc    Encoder
	o      PackOptions
	format formatFile
	was    formatFile // before
	fresh  bool       // there was no store
	state  *state

	out    packLog
	batch  batch
	next   int64 // sequence number
	report Report

	shard   *shardRun // of PackShard; nil for Pack
	skipped atomic.Int64
	unread  []string // paths that could not be walked: nothing below them is gone
}

// syncEvery bounds what a power failure can cost an unfinished pack of a store.
const syncEvery = 10 * time.Second

func (p *packer) setDefaults() error {
	o := &p.o
	if o.FS == nil {
		o.FS = vfs.OS
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Warn == nil {
		o.Warn = func(path string, err error) { o.Logger.Warn("left out", "path", path, "error", err) }
	}
	if o.Progress == nil {
		o.Progress = func(Progress) {}
	}
	o.Workers = positive(o.Workers, runtime.GOMAXPROCS(0))
	o.RecordBytes = positive(o.RecordBytes, defaultBytes)
	o.MemoryBytes = positive(o.MemoryBytes, defaultMemory)
	o.PackBytes = positive(o.PackBytes, defaultBytes)
	return o.Check()
}

const (
	defaultBytes  = 256 << 20 // of a pack, and of a record
	defaultMemory = 512 << 20
)

// positive is n, or where that is not positive a default.
func positive[T int | int64 | float64](n, otherwise T) T {
	if n > 0 {
		return n
	}
	return otherwise
}

// Check says what is wrong with the options.
func (o *PackOptions) Check() error {
	if o.RecordImages < 0 || o.RecordImages > maxRecordEntries {
		return fmt.Errorf("%d samples a record: want 1 to %d", o.RecordImages, maxRecordEntries)
	}
	if o.Order != "" && o.Order != OrderPath && o.Order != OrderShuffle {
		return fmt.Errorf("order %q: want %s or %s", o.Order, OrderPath, OrderShuffle)
	}
	return nil
}

func (p *packer) indexes() indexDir { return indexDirOf(p.dir, p.o.IndexDir) }

func (p *packer) packs() string { return filepath.Join(p.dir, packsName) }

func (p *packer) pack(ctx context.Context) (_ Report, err error) {
	if err := p.setDefaults(); err != nil {
		return Report{}, err
	}
	lock, err := p.begin()
	if err != nil {
		return Report{}, err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if err = p.load(ctx); err == nil {
		err = p.run(ctx)
	}
	if err == nil {
		err = p.end(ctx)
	}
	err = errors.Join(err, p.out.close())
	if errors.Is(err, syscall.ENOSPC) {
		err = fmt.Errorf("the disk is full; what is packed so far is kept, and packing again goes on from there: %w", err)
	}
	p.report.Bytes, p.report.Packs = p.out.written, p.out.packs
	return p.report, err
}

// begin makes the store if need be, and locks it.
func (p *packer) begin() (io.Closer, error) {
	lock, err := p.lock()
	if err != nil {
		return nil, err
	}
	if err := p.writeFormat(); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return lock, nil
}

// lock locks the store, and sets the format that it is to have.
func (p *packer) lock() (lock io.Closer, err error) {
	fsys := p.o.FS
	if err := MayUse(fsys, p.dir); err != nil {
		return nil, err
	}
	if err := fsys.MkdirAll(p.packs()); err != nil {
		return nil, err
	}
	if lock, err = lockDir(fsys, p.dir); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, lock.Close())
		}
	}()
	p.format, err = readFormat(fsys, p.dir)
	if err == nil {
		// A newer version would not find in a generation of this one what it needs.
		if _, newer := readGeneration(fsys, p.dir); errors.Is(newer, ErrVersion) {
			return lock, fmt.Errorf("%s: %w", p.dir, newer)
		}
	}
	p.fresh = errors.Is(err, ErrNotStore) || errors.Is(err, errFormatGone)
	if err != nil && !p.fresh {
		return lock, err
	}
	p.was = p.format
	if p.fresh {
		p.format = formatFile{Magic: formatMagic, Version: formatVersion, RecordImages: 1, Order: OrderPath}
	}
	if p.o.RecordImages > 0 {
		p.format.RecordImages = p.o.RecordImages
	}
	if p.o.Order != "" {
		p.format.Order, p.format.Seed = p.o.Order, p.o.Seed
	}
	if p.o.DatasetPath != "" {
		p.format.Dataset = p.o.DatasetPath
	}
	return lock, nil
}

// writeFormat writes the format unless it is there.
func (p *packer) writeFormat() error {
	if p.was == p.format {
		return nil
	}
	text, err := sorted.Seal(p.format)
	if err == nil {
		err = replaceFile(p.o.FS, filepath.Join(p.dir, formatName), text)
	}
	if err == nil && p.fresh {
		err = p.o.FS.SyncDir(filepath.Dir(filepath.Clean(p.dir)))
	}
	return err
}

// blobPrefix begins the names of files that package blob makes for itself.
const blobPrefix = ".pipefs-"

// MayUse refuses a directory that is no store, and holds something else.
func MayUse(fsys vfs.FS, dir string) error {
	names, err := fsys.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil || slices.Contains(names, formatName) {
		return err
	}
	for _, name := range names {
		switch name {
		case lockName, packsName, plansName, segmentsName, generationsName, currentName, indexName, fractionsName, autoName, formatName + tmpSuffix:
		default:
			if strings.HasPrefix(name, blobPrefix) {
				continue
			}
			return fmt.Errorf("%s holds %s and is no store: choose an empty directory: %w", dir, name, ErrNotStore)
		}
	}
	return nil
}

// load learns what is stored, from the packs themselves, and takes over what
// an interrupted run left.
func (p *packer) load(ctx context.Context) error {
	g, broken := readGeneration(p.o.FS, p.dir)
	if broken != nil {
		g = &generation{}
	}
	p.state = newState(g.Entries)
	p.out = packLog{
		fs: p.o.FS, dir: p.packs(), packBytes: p.o.PackBytes, syncs: true,
		list: func() ([]packName, []packName, error) { return listCounting(p.o.FS, p.dir) },
		sealed: func(s packSeal) error {
			_, err := makeSegment(p.o.FS, p.dir, s.name())
			return err
		},
	}
	p.gather()
	err := inOrder(ctx, p.o.Workers, p.o.MemoryBytes, func(ctx context.Context, hand func(work) error) error {
		return p.out.load(ctx, func(n packName) error {
			var facts []digest
			return hand(work{
				weight: 2 * sealFooter,
				make: func(context.Context) error {
					err := p.eachStored(n, func(rec scanned) error { facts = p.digest(facts, rec); return nil })
					if errors.Is(err, ErrCorrupt) {
						err = fmt.Errorf("%s: move %s away to pack again what it held: %w", p.dir, n, err)
					}
					return err
				},
				store: func(err error) error { p.state.add(facts); return err },
			})
		}, func(_ packName, rec scanned) error {
			p.report.Salvaged++
			facts := p.digest(nil, rec)
			return hand(work{store: func(error) error { p.state.add(facts); return nil }})
		})
	})
	p.next = p.state.seq
	for i := range g.Replaced { // a new pack comes after them, too
		p.out.next = max(p.out.next, g.Replaced[i].Age+1)
	}
	if p.report.Salvaged > 0 {
		p.o.Logger.Info("taken over from an interrupted run", "records", p.report.Salvaged)
	}
	return err
}

// gather begins the first record.
func (p *packer) gather() {
	p.batch = batch{out: &p.out, most: p.format.RecordImages, limit: p.o.RecordBytes, wrote: p.wrote}
}

// eachStored calls f with each record of a sealed pack.
func (p *packer) eachStored(n packName, f func(scanned) error) error {
	file, err := p.o.FS.Open(filepath.Join(p.dir, n.file()))
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = eachSealed(file, packRef{packName: n}, f)
	return err
}

// digest appends what is to be known of a record. It runs on several goroutines.
func (p *packer) digest(facts []digest, rec scanned) []digest {
	for i := range rec.samples {
		s := &rec.samples[i]
		facts = append(facts, p.state.digest(s, s.Kind == Dir || s.Kind == File && p.enc.Current(s)))
	}
	return facts
}

// end seals, marks what is gone, and brings the index up to date.
func (p *packer) end(ctx context.Context) error {
	if err := p.out.seal(); err != nil {
		return err
	}
	p.state = nil // tens of bytes an entry
	if p.indexed() {
		return nil
	}
	return commit(ctx, p.o.FS, p.dir, p.indexes(), p.format, p.o.Logger)
}

// indexed reports whether the current generation is about what is there now.
func (p *packer) indexed() bool {
	g, err := readGeneration(p.o.FS, p.dir)
	if err != nil {
		return false
	}
	st := &g.Stats
	return st.RecordImages == p.format.RecordImages && st.Order == p.format.Order &&
		st.Seed == p.format.Seed && st.Dataset == p.format.Dataset && g.upToDate(p.o.FS, p.dir, p.indexes(), p.o.Logger)
}
