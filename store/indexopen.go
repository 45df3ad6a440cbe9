package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/pipefs/pipefs/store/vfs"
)

// openCurrent opens the generation that CURRENT names. A writer may replace it,
// and remove the one before, at any moment: then the next one is tried.
func openCurrent(fsys vfs.FS, dir string) (*index, error) {
	var last currentFile
	for tries := 0; ; tries++ {
		var c currentFile
		if _, err := readText(fsys, filepath.Join(dir, currentName), &c); err != nil {
			return nil, err
		}
		x, err := openIndex(fsys, dir, c)
		// What is broken stays the same; what was replaced does not.
		if err == nil || tries > 0 && c == last || tries == 10 {
			return x, err
		}
		last = c
	}
}

// openIndex opens a generation. Its blocks are checked when they are read.
func openIndex(fsys vfs.FS, dir string, c currentFile) (*index, error) {
	if _, ok := indexNumber(c.Index); !ok {
		return nil, &CorruptError{Path: currentName, Cause: fmt.Errorf("names %q", c.Index)}
	}
	x := &index{name: c.Index}
	seal, err := readText(fsys, filepath.Join(dir, c.Index, sealName), &x.seal)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", c.Index, err)
	case hexSum(seal) != c.Seal:
		return nil, &CorruptError{Path: c.Index + "/" + sealName, Cause: errors.New("not the one that CURRENT names")}
	case x.seal.Version != indexVersion:
		return nil, fmt.Errorf("%s: version %d: %w; pack again", c.Index, x.seal.Version, ErrVersion)
	}
	f, err := fsys.Open(filepath.Join(dir, c.Index, tableName))
	if err != nil {
		return nil, err
	}
	return x.open(f)
}

// open takes over the file of the table, and closes it where it does not fit.
func (x *index) open(f vfs.File) (*index, error) {
	x.f, x.table.seal = f, x.seal.Table
	size, err := f.Size()
	switch {
	case err != nil:
	case size < x.seal.Table.Size:
		err = x.broken(tableName, fmt.Errorf("%d bytes, want %d: %w", size, x.seal.Table.Size, errShort))
	case size > x.seal.Table.Size:
		err = x.broken(tableName, fmt.Errorf("%d bytes, want %d", size, x.seal.Table.Size))
	default:
		_, err = x.root()
		err = x.broken(tableName, err)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return x, nil
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
	seal, err := buildIndex(ctx, fsys, dir, name+tmpSuffix, f)
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
			// Who has it open goes on reading it.
			if err := fsys.RemoveAll(filepath.Join(dir, indexName(n))); err != nil {
				log.Warn("an old index could not be removed", "index", indexName(n), "error", err)
			}
		}
	}
	return nil
}

// privateName is that of an index that only this process has.
const privateName = "temporary index"

// privateIndex makes an index of some packs in a file without a name.
func privateIndex(ctx context.Context, fsys vfs.FS, store, temp string, numbers []uint32, f formatFile) (*index, error) {
	if temp == "" {
		temp = os.TempDir()
	}
	// The file belongs to this process: vfs.OS, whatever the store is on.
	out, err := unnamed(vfs.OS, temp)
	if err != nil {
		return nil, fmt.Errorf("no room to make an index: %w", err)
	}
	x := &index{name: privateName}
	x.seal, err = buildTable(ctx, fsys, filepath.Join(store, packsName), numbers, f, vfs.OS, temp, out)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make an index in %s: %w", temp, err), out.Close())
	}
	return x.open(out)
}
