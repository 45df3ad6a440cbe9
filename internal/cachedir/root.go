package cachedir

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/store/vfs"
)

const (
	limitName     = "limit"
	lockName      = "lock"
	datasetName   = "dataset"
	removedPrefix = "removed-"
	mostByDefault = 50e9 // bytes
)

// Root is the cache directory of a user.
type Root struct {
	dir string
}

// Open returns the cache directory dir, which has to be there.
func Open(dir string) *Root { return &Root{filepath.Clean(dir)} }

// Dir is the path of the directory.
func (r *Root) Dir() string { return r.dir }

// Entry is a slot, as it is at the moment.
type Entry struct {
	Dataset string    `json:"dataset"` // path; empty where it is not known
	Dir     string    `json:"dir"`
	Bytes   int64     `json:"bytes"`     // what its files take
	Used    time.Time `json:"last_used"` // when a mount took it, or gave it back
	InUse   bool      `json:"in_use"`
	Use     Use       `json:"use"`
}

// counted is what the slot counts for the limit.
func (e *Entry) counted() int64 {
	if e.InUse {
		return max(e.Bytes, e.Use.Reserved)
	}
	return e.Bytes
}

// Take gives a mount of a dataset its slot. own is a limit for this mount alone; 0 is
// none. What the slot holds is given up if it is more than may be kept.
func (r *Root) Take(dataset, mount string, own int64) (*Slot, error) {
	s, err := r.take(dataset, mount, own)
	r.collect()
	return s, err
}

func (r *Root) take(dataset, mount string, own int64) (*Slot, error) {
	unlock, err := r.lock()
	if err != nil {
		return nil, err
	}
	defer unlock()
	dir := filepath.Join(r.dir, digest(dataset))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	// for people who wonder what takes their space
	if err := os.WriteFile(filepath.Join(dir, datasetName), []byte(dataset+"\n"), 0o600); err != nil {
		return nil, err
	}
	s, err := TakeSlot(dir)
	if err != nil {
		return nil, err
	}
	s.root, s.own = r, own
	s.use.Mount = mount
	if s.use.Reserved, err = bytesBelow(s.Dir); err == nil {
		err = s.fit()
	}
	if err == nil {
		now := time.Now()
		err = errors.Join(s.note(), os.Chtimes(s.lock.Name(), now, now))
	}
	if err != nil {
		s.Release()
		return nil, err
	}
	return s, nil
}

// makeRoom removes slots until all but the one at own count no more than most bytes,
// or all that remain are in use. It returns what they count.
func (r *Root) makeRoom(entries []Entry, own string, most int64) (others int64, err error) {
	entries = slices.DeleteFunc(slices.Clone(entries), func(e Entry) bool { return e.Dir == own })
	for _, e := range entries {
		others += e.counted()
	}
	slices.SortFunc(entries, func(a, b Entry) int { return a.Used.Compare(b.Used) })
	for _, e := range entries {
		if others <= most {
			break
		}
		removed, err := r.remove(e)
		if err != nil {
			return others, err
		}
		if removed {
			others -= e.counted()
		}
	}
	return others, nil
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
	if left, err := filepath.Glob(filepath.Join(quoteGlob(parent), slotName+"*")); err == nil && len(left) == 0 {
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

// List describes all slots, the one that was used last first.
func (r *Root) List() ([]Entry, error) {
	unlock, err := r.lock()
	if err != nil {
		return nil, err
	}
	defer unlock()
	entries, err := r.entries()
	slices.SortFunc(entries, func(a, b Entry) int { return cmp.Or(b.Used.Compare(a.Used), cmp.Compare(a.Dir, b.Dir)) })
	return entries, err
}

// Clear removes what is kept for a dataset, or for all where it is empty. It returns
// what was removed, and what was left because a mount uses it.
func (r *Root) Clear(dataset string) (removed, used []Entry, err error) {
	defer r.collect()
	unlock, err := r.lock()
	if err != nil {
		return nil, nil, err
	}
	defer unlock()
	entries, err := r.entries()
	if err != nil {
		return nil, nil, err
	}
	for _, e := range entries {
		if dataset != "" && e.Dataset != dataset {
			continue
		}
		gone, err := r.remove(e)
		switch {
		case err != nil:
			return removed, used, err
		case gone:
			removed = append(removed, e)
		default:
			used = append(used, e)
		}
	}
	return removed, used, nil
}

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
	_, err = r.makeRoom(entries, "", limit)
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

// lock keeps all other processes from taking, counting and removing slots.
func (r *Root) lock() (unlock func(), err error) {
	path := filepath.Join(r.dir, lockName)
	f, err := vfs.OpenRegular(path, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, err
	}
	if err := flock(f, syscall.LOCK_EX); err != nil {
		f.Close()
		return nil, &os.PathError{Op: "lock", Path: path, Err: err}
	}
	return func() { f.Close() }, nil
}

// entries looks at all slots. The directory is locked.
func (r *Root) entries() ([]Entry, error) {
	locks, err := filepath.Glob(filepath.Join(quoteGlob(r.dir), "*", slotName+"*"+lockSuffix))
	if err != nil {
		return nil, err
	}
	var all []Entry
	for _, path := range locks {
		info, err := os.Lstat(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		e := Entry{Dir: strings.TrimSuffix(path, lockSuffix), Used: info.ModTime(), Use: readUse(path)}
		text, _ := readFirst(filepath.Join(filepath.Dir(path), datasetName))
		e.Dataset = strings.TrimSuffix(string(text), "\n")
		lock, err := tryLock(path)
		switch {
		case errors.Is(err, errHeld):
			e.InUse = true
		case err != nil:
			return nil, err
		default:
			lock.Close()
			e.Use = Use{}
		}
		if e.Bytes, err = bytesBelow(e.Dir); err != nil {
			return nil, err
		}
		all = append(all, e)
	}
	return all, nil
}

// bytesBelow is the size of all files below a directory; 0 if there is none.
func bytesBelow(dir string) (n int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			var info fs.FileInfo
			if info, err = e.Info(); err == nil {
				n += info.Size()
			}
		}
		if errors.Is(err, fs.ErrNotExist) { // it went meanwhile
			return nil
		}
		return err
	})
	return n, err
}

// quoteGlob makes a path stand for itself in a pattern.
func quoteGlob(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// digest names a dataset by its path: 16 hexadecimal digits.
func digest(path string) string {
	sum := sha256.Sum256([]byte(path))
	return hex.EncodeToString(sum[:8])
}
