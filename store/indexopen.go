package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/dgraph-io/badger/v4"

	"github.com/pipefs/pipefs/store/vfs"
)

// openCurrent opens the generation that CURRENT names. A writer may replace it,
// and remove the one before, at any moment: then the next one is tried.
func openCurrent(fsys vfs.FS, dir string, log *slog.Logger) (*index, error) {
	var last currentFile
	for tries := 0; ; tries++ {
		var c currentFile
		if _, err := readText(fsys, filepath.Join(dir, currentName), &c); err != nil {
			return nil, err
		}
		// What is broken stays the same; what was replaced does not.
		if tries > 0 && c == last || tries == 10 {
			return openIndex(fsys, dir, c, log)
		}
		x, err := openIndex(fsys, dir, c, log)
		if err == nil {
			return x, nil
		}
		last = c
	}
}

// errOlderIndex: the packs are what they are, and their index can be made again.
var errOlderIndex = errors.New("the index was made by an older version, which counted less")

// openIndex opens a generation after all its bytes were checked.
func openIndex(fsys vfs.FS, dir string, c currentFile, log *slog.Logger) (*index, error) {
	if _, ok := indexNumber(c.Index); !ok {
		return nil, &CorruptError{Path: currentName, Cause: fmt.Errorf("names %q", c.Index)}
	}
	x := &index{name: c.Index, log: log, txns: make(chan *badger.Txn, keptTxns)}
	hold, err := holdIndex(fsys, filepath.Join(dir, c.Index))
	if err != nil {
		return nil, err
	}
	defer hold()
	seal, err := readText(fsys, filepath.Join(dir, c.Index, sealName), &x.seal)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Index, err)
	}
	if hexSum(seal) != c.Seal {
		return nil, &CorruptError{Path: c.Index + "/" + sealName, Cause: errors.New("not the one that CURRENT names")}
	}
	if x.seal.Version > formatVersion {
		return nil, fmt.Errorf("%s: version %d: %w", c.Index, x.seal.Version, ErrVersion)
	}
	if x.seal.Stats.WithoutOriginal == nil {
		return nil, fmt.Errorf("%s: %w", c.Index, errOlderIndex)
	}
	db := filepath.Join(dir, c.Index, dbName)
	if err := checkFiles(fsys, db, x.seal.Files); err != nil {
		return nil, err
	}
	x.db, err = badger.Open(badgerOptions(db, log).WithReadOnly(true))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Index, err)
	}
	keys := int64(0)
	for _, t := range x.db.Tables() {
		keys += int64(t.KeyCount)
	}
	if keys != x.seal.Entries {
		x.close()
		return nil, &CorruptError{Path: c.Index, Cause: fmt.Errorf("%d entries, want %d", keys, x.seal.Entries)}
	}
	return x, nil
}

// holdIndex keeps a generation from being removed until the result is called:
// Badger leaks goroutines when files vanish while it opens them. Where a file
// system has no locks nothing is held.
func holdIndex(fsys vfs.FS, index string) (func(), error) {
	seal := filepath.Join(index, sealName)
	l, err := fsys.LockShared(seal)
	switch {
	case err == nil:
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, vfs.ErrLocked):
		return nil, fmt.Errorf("%s was removed: %w", index, fs.ErrNotExist)
	default:
		return func() {}, nil
	}
	if _, err := fsys.Size(seal); err != nil { // removed just before
		return nil, errors.Join(err, l.Close())
	}
	return func() { _ = l.Close() }, nil
}

// removeIndex removes a generation, unless somebody is opening it: then the next
// writer will.
func removeIndex(fsys vfs.FS, index string) error {
	l, err := fsys.Lock(filepath.Join(index, sealName))
	if errors.Is(err, vfs.ErrLocked) {
		return nil
	}
	if err == nil {
		defer l.Close()
	}
	return fsys.RemoveAll(index)
}

// checkFiles compares the files of a database with what its SEAL says, several
// at a time: this is most of the time that opening a large store takes.
func checkFiles(fsys vfs.FS, db string, want []indexFile) error {
	names, err := fsys.List(db)
	if err != nil {
		return err
	}
	for _, name := range names {
		if !slices.ContainsFunc(want, func(w indexFile) bool { return w.Name == name }) {
			return &CorruptError{Path: filepath.Join(db, name), Cause: errors.New("an unknown file in the index")}
		}
	}
	errs := make([]error, len(want))
	tokens := make(chan struct{}, 4)
	var wg sync.WaitGroup
	for i, w := range want {
		wg.Go(func() {
			tokens <- struct{}{}
			defer func() { <-tokens }()
			errs[i] = checkFile(fsys, db, w)
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func checkFile(fsys vfs.FS, db string, want indexFile) error {
	if want.Name != filepath.Base(want.Name) {
		return &CorruptError{Path: sealName, Cause: fmt.Errorf("names the file %q", want.Name)}
	}
	f, err := fsys.Open(filepath.Join(db, want.Name))
	if err != nil {
		return err
	}
	defer f.Close()
	if size, err := f.Size(); err == nil && size != want.Size {
		return &CorruptError{Path: filepath.Join(db, want.Name), Cause: fmt.Errorf("%d bytes, want %d", size, want.Size)}
	}
	is, err := sumFile(f)
	if err != nil {
		return err
	}
	if is.Sum != want.Sum {
		return &CorruptError{Path: filepath.Join(db, want.Name), Cause: errSum}
	}
	return nil
}

func hexSum(v uint32) string { return fmt.Sprintf("%08x", v) }

// indexNumber is N of "index.N".
func indexNumber(name string) (uint64, bool) {
	digits, ok := strings.CutPrefix(name, indexPrefix)
	n, err := strconv.ParseUint(digits, 10, 63)
	return n, ok && err == nil && n > 0 && name == indexName(n)
}

func indexName(n uint64) string { return indexPrefix + strconv.FormatUint(n, 10) }

// publishIndex makes a new generation out of all sealed packs and makes it
// current. The caller holds the lock.
func publishIndex(ctx context.Context, fsys vfs.FS, dir string, f formatFile, log *slog.Logger) error {
	names, err := fsys.List(dir)
	if err != nil {
		return err
	}
	var old []uint64
	for _, name := range names {
		if n, ok := indexNumber(name); ok {
			old = append(old, n)
		} else if strings.HasPrefix(name, indexPrefix) && strings.HasSuffix(name, tmpSuffix) {
			if err := fsys.RemoveAll(filepath.Join(dir, name)); err != nil {
				return err
			}
		}
	}
	slices.Sort(old)
	next := uint64(1)
	if len(old) > 0 {
		next = old[len(old)-1] + 1
	}
	name := filepath.Join(dir, indexName(next))
	seal, err := buildIndex(ctx, fsys, dir, fsys, name+tmpSuffix, f, log)
	if err == nil {
		err = fsys.Rename(name+tmpSuffix, name)
	}
	if err == nil {
		err = fsys.SyncDir(dir)
	}
	if err != nil {
		return errors.Join(err, fsys.RemoveAll(name+tmpSuffix))
	}
	text, _, err := encodeText(currentFile{Index: indexName(next), Seal: hexSum(seal)})
	if err != nil {
		return err
	}
	if err := replaceFile(fsys, filepath.Join(dir, currentName), text); err != nil {
		return err
	}
	for i, n := range old {
		if i < len(old)-(keepIndexes-1) {
			if err := removeIndex(fsys, filepath.Join(dir, indexName(n))); err != nil {
				log.Warn("an old index could not be removed", "index", indexName(n), "error", err)
			}
		}
	}
	return nil
}
