package store

import (
	"cmp"
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

	"github.com/pipefs/pipefs/store/vfs"
)

// packer is one run of Pack.
type packer struct {
	dir    string
	src    Source
	enc    Encoder
	o      PackOptions
	format formatFile
	state  *state

	out    packLog
	batch  batch
	report Report

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
	if o.Workers <= 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	if o.RecordImages < 0 || o.RecordImages > maxRecordEntries {
		return fmt.Errorf("%d samples a record: want 1 to %d", o.RecordImages, maxRecordEntries)
	}
	if o.Order != "" && o.Order != OrderPath && o.Order != OrderShuffle {
		return fmt.Errorf("order %q: want %s or %s", o.Order, OrderPath, OrderShuffle)
	}
	o.RecordBytes = cmp.Or(max(o.RecordBytes, 0), 256<<20)
	o.MemoryBytes = cmp.Or(max(o.MemoryBytes, 0), 512<<20)
	o.PackBytes = cmp.Or(max(o.PackBytes, 0), 256<<20)
	return nil
}

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
func (p *packer) begin() (lock io.Closer, err error) {
	fsys := p.o.FS
	if err := p.mayUse(); err != nil {
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
	fresh := errors.Is(err, ErrNotStore)
	if err != nil && !fresh {
		return lock, err
	}
	if fresh {
		p.format = formatFile{Magic: formatMagic, Version: formatVersion, RecordImages: 1, Order: OrderPath}
	}
	was := p.format
	if p.o.RecordImages > 0 {
		p.format.RecordImages = p.o.RecordImages
	}
	if p.o.Order != "" {
		p.format.Order, p.format.Seed = p.o.Order, p.o.Seed
	}
	if p.o.DatasetPath != "" {
		p.format.Dataset = p.o.DatasetPath
	}
	if !fresh && was == p.format {
		return lock, nil
	}
	text, _, err := encodeText(p.format)
	if err == nil {
		err = replaceFile(fsys, filepath.Join(p.dir, formatName), text)
	}
	if err == nil && fresh {
		err = fsys.SyncDir(filepath.Dir(filepath.Clean(p.dir)))
	}
	return lock, err
}

// mayUse refuses a directory that holds something else.
func (p *packer) mayUse() error {
	names, err := p.o.FS.List(p.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil || slices.Contains(names, formatName) {
		return err
	}
	for _, name := range names {
		switch {
		case name == lockName, name == packsName, name == currentName, name == formatName+tmpSuffix, name == fractionsName, name == autoName,
			strings.HasPrefix(name, indexPrefix):
		default:
			return fmt.Errorf("%s holds %s and is no store: choose an empty directory: %w", p.dir, name, ErrNotStore)
		}
	}
	return nil
}

// load learns what is stored, from the packs themselves, and takes over what
// an interrupted run left.
func (p *packer) load(ctx context.Context) error {
	p.state = newState()
	p.out = packLog{
		fs: p.o.FS, dir: p.packs(), packBytes: p.o.PackBytes, syncEvery: syncEvery,
	}
	err := p.out.load(ctx, func(n uint32) error {
		err := p.eachStored(n, p.know)
		if errors.Is(err, ErrCorrupt) {
			err = fmt.Errorf("%s: move %s away to pack again what it held: %w", p.dir, packName(n), err)
		}
		return err
	}, func(_ uint32, rec scanned) error {
		p.report.Salvaged++
		return p.know(rec)
	})
	if p.report.Salvaged > 0 {
		p.o.Logger.Info("taken over from an interrupted run", "records", p.report.Salvaged)
	}
	return err
}

// eachStored calls f with each record of a sealed pack.
func (p *packer) eachStored(n uint32, f func(scanned) error) error {
	file, err := p.o.FS.Open(filepath.Join(p.packs(), packName(n)))
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = eachSealed(file, n, f)
	return err
}

func (p *packer) know(rec scanned) error {
	for i := range rec.samples {
		s := &rec.samples[i]
		p.state.add(s, s.Kind == Dir || s.Kind == File && p.enc.Current(s))
	}
	return nil
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
	return publishIndex(ctx, p.o.FS, p.dir, p.format, p.o.Logger)
}

// indexed reports whether the current index is about what is there now.
func (p *packer) indexed() bool {
	x, err := openWhole(p.o.FS, p.dir)
	if err != nil {
		return false
	}
	defer x.close(p.o.Logger)
	sealed, _, err := listPacks(p.o.FS, p.packs())
	if err != nil || len(sealed) != len(x.seal.Packs) {
		return false
	}
	for i, n := range sealed {
		want := &x.seal.Packs[i]
		f, err := p.o.FS.Open(filepath.Join(p.packs(), packName(n)))
		if err != nil {
			return false
		}
		if err := errors.Join(want.same(f), f.Close()); err != nil || want.Number != n {
			return false
		}
	}
	st := &x.seal.Stats
	return st.RecordImages == p.format.RecordImages && st.Order == p.format.Order &&
		st.Seed == p.format.Seed && st.Dataset == p.format.Dataset
}
