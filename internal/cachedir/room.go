package cachedir

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Limit is what all slots together may hold, bytes; set says that it was set, and not
// derived from the disk.
func (r *Root) Limit() (limit int64, set bool, err error) {
	if limit, set = r.readLimit(); set {
		return limit, true, nil
	}
	entries, err := r.List()
	if err != nil {
		return 0, false, err
	}
	limit, err = r.limit(entries, 0)
	return limit, false, err
}

// SetLimit sets the limit, for mounts that are there as well, and removes what is more
// than that and not in use. A negative one is the default again.
func (r *Root) SetLimit(limit int64) error {
	defer r.collect()
	unlock, err := r.lock()
	if err != nil {
		return err
	}
	defer unlock()
	path := filepath.Join(r.dir, limitName)
	if limit < 0 {
		if err = os.Remove(path); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return err
	}
	next := path + ".new"
	if err := os.WriteFile(next, fmt.Appendln(nil, limit), 0o600); err != nil {
		return err
	}
	if err := os.Rename(next, path); err != nil {
		return err
	}
	entries, err := r.entries()
	if err != nil {
		return err
	}
	_, err = r.makeRoom(entries, limit)
	return err
}

func (r *Root) readLimit() (int64, bool) {
	text, err := readFirst(filepath.Join(r.dir, limitName))
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	return n, err == nil && n >= 0
}

// limit is what was set, or a tenth of what would be free without the cache, and what a
// mount asks for if that is more.
func (r *Root) limit(entries []Entry, own int64) (int64, error) {
	if n, set := r.readLimit(); set {
		return n, nil
	}
	free, err := Free(r.dir)
	if err != nil {
		return 0, err
	}
	for _, e := range entries {
		free += e.Bytes
	}
	return max(min(free/10, mostByDefault), own), nil
}

// Free is the number of bytes that a user may still write below dir.
func Free(dir string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	return int64(min(st.Bavail, math.MaxInt64/uint64(st.Bsize))) * st.Bsize, nil
}

// others returns a limit of a slot, in bytes, and the other slots that count for it: those of
// a kind, or all where that is empty.
func (r *Root) others(kind string, s *Slot) (limit int64, others []Entry, err error) {
	entries, err := r.entries()
	if err != nil {
		return 0, nil, err
	}
	if limit = s.own; kind == "" {
		if limit, err = r.limit(entries, s.own); err != nil {
			return 0, nil, err
		}
	}
	return limit, slices.DeleteFunc(entries, func(e Entry) bool { return e.Dir == s.Dir || kind != "" && e.Kind != kind }), nil
}

// makeRoom removes what nobody uses until the slots count no more than most bytes, or all that
// remain are in use. It returns what they count.
func (r *Root) makeRoom(entries []Entry, most int64) (others int64, err error) {
	for _, e := range entries {
		others += e.counted()
	}
	slices.SortFunc(entries, func(a, b Entry) int { return a.Used.Compare(b.Used) })
	for _, e := range entries {
		if others <= most {
			break
		}
		left, err := r.reduce(e, e.counted()-(others-most))
		if err != nil {
			return others, err
		}
		others -= e.counted() - left
	}
	return others, nil
}

// reduce takes from a slot that nobody uses what is more than most bytes, or all of it where
// its files need each other. It returns what the slot counts then. The directory is locked.
func (r *Root) reduce(e Entry, most int64) (left int64, err error) {
	if e.Kind != Blocks || most <= 0 {
		removed, err := r.remove(e)
		if err != nil || !removed {
			return e.counted(), err
		}
		return 0, nil
	}
	if e.InUse {
		return e.counted(), nil
	}
	lock, err := tryLock(e.Dir + lockSuffix)
	if errors.Is(err, errHeld) {
		return e.counted(), nil
	}
	if err != nil {
		return e.counted(), err
	}
	defer lock.Close()
	return r.shrink(e, most)
}

// shrink makes a slot hold no more than most bytes, and returns what it holds then. This process
// has the slot.
func (r *Root) shrink(e Entry, most int64) (left int64, err error) {
	if e.Kind != Blocks {
		return 0, r.discard(e.Dir)
	}
	files, err := os.ReadDir(e.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	infos := make([]fs.FileInfo, 0, len(files))
	for _, f := range files {
		if info, err := f.Info(); err == nil && info.Mode().IsRegular() {
			infos = append(infos, info)
			left += info.Size()
		}
	}
	slices.SortFunc(infos, func(a, b fs.FileInfo) int { return a.ModTime().Compare(b.ModTime()) })
	for _, info := range infos {
		if left <= most {
			break
		}
		if err := os.Remove(filepath.Join(e.Dir, info.Name())); err != nil {
			return left, err
		}
		left -= info.Size()
	}
	return left, nil
}

// remove takes a slot away if nobody uses it. The directory is locked.
func (r *Root) remove(e Entry) (bool, error) {
	if e.InUse {
		return false, nil
	}
	lock, err := tryLock(e.Dir + lockSuffix)
	if errors.Is(err, errHeld) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer lock.Close()
	if err := r.discard(e.Dir); err != nil {
		return false, err
	}
	if err := os.Remove(lock.Name()); err != nil {
		return false, err
	}
	// the last one takes the rest with it
	parent := filepath.Dir(e.Dir)
	if left, err := filepath.Glob(filepath.Join(quoteGlob(parent), "*"+lockSuffix)); err == nil && len(left) == 0 {
		_ = os.Remove(filepath.Join(parent, datasetName))
		_ = os.Remove(parent)
	}
	return true, nil
}

// discard puts a directory where collect finds it: to remove its files takes a while.
func (r *Root) discard(dir string) error {
	to := fmt.Sprintf("%s%s-%s-%d", removedPrefix, filepath.Base(filepath.Dir(dir)), filepath.Base(dir), time.Now().UnixNano())
	err := os.Rename(dir, filepath.Join(r.dir, to))
	if errors.Is(err, fs.ErrNotExist) { // nothing was kept
		return nil
	}
	return err
}

// collect removes what was discarded. What it cannot remove the next one may.
func (r *Root) collect() {
	left, err := filepath.Glob(filepath.Join(quoteGlob(r.dir), removedPrefix+"*"))
	if err != nil {
		return
	}
	for _, dir := range left {
		_ = os.RemoveAll(dir)
	}
}
