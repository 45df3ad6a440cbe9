package cachedir

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
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
	Dataset string    `json:"dataset"` // path or URL; empty where it is not known
	Kind    string    `json:"kind"`    // Overlay, Blocks or Known
	Dir     string    `json:"dir"`
	Bytes   int64     `json:"bytes"`     // what its files take
	Used    time.Time `json:"last_used"` // when a mount took it, or gave it back
	InUse   bool      `json:"in_use"`
	Use     Use       `json:"use"`
}

// What slots hold.
const (
	// Overlay: what mounts have prepared.
	Overlay = "overlay"
	// Blocks: pieces of objects that are far away, in files that do not need each other.
	Blocks = "blocks"
	// Known: what else is known of a place that is far away: the list of its names, the index of
	// a store and copies of its short files, and packs that are not put there yet.
	Known = "known"
)

// kindOf is the kind of a slot in a directory, or of its lock.
func kindOf(dir string) string {
	kind, _, _ := strings.Cut(filepath.Base(dir), ".")
	return kind
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
	s, err := r.take(dataset, overlaySlot, mount, own)
	r.collect()
	return s, err
}

// TakeBlocks gives a mount a slot for blocks of the objects of a place. own is a limit for all
// such slots together; 0 is none. What they hold goes file by file, the oldest first.
func (r *Root) TakeBlocks(place, mount string, own int64) (*Slot, error) {
	s, err := r.take(place, blocksSlot, mount, own)
	r.collect()
	return s, err
}

func (r *Root) take(dataset, kind, mount string, own int64) (*Slot, error) {
	unlock, err := r.lock()
	if err != nil {
		return nil, err
	}
	defer unlock()
	dir := filepath.Join(r.dir, digest(dataset))
	if err := r.name(dir, dataset); err != nil {
		return nil, err
	}
	s, err := takeSlot(dir, kind)
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

// KnownDir is the directory for what is known of a place. It need not exist. Who reads or writes
// there shares it.
func (r *Root) KnownDir(place string) string {
	return filepath.Join(r.dir, digest(place), knownSlot+"0")
}

// Share keeps what is known of a place from being removed, until what it returns is closed. Any number of
// processes may share it.
func (r *Root) Share(place string) (io.Closer, error) {
	unlock, err := r.lock()
	if err != nil {
		return nil, err
	}
	defer unlock()
	dir := r.KnownDir(place)
	if err := r.name(filepath.Dir(dir), place); err != nil {
		return nil, err
	}
	f, err := vfs.OpenRegular(dir+lockSuffix, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, err
	}
	if err := flock(f, syscall.LOCK_SH); err != nil {
		f.Close()
		return nil, &os.PathError{Op: "lock", Path: f.Name(), Err: err}
	}
	now := time.Now()
	_ = os.Chtimes(f.Name(), now, now) // when it was used last
	return &shared{r, dir, f}, nil
}

type shared struct {
	root *Root
	dir  string
	lock *os.File
}

// Close implements [io.Closer]. Where nothing was kept, nothing is left.
func (s *shared) Close() error {
	err := s.lock.Close()
	if _, none := os.Lstat(s.dir); !errors.Is(none, fs.ErrNotExist) {
		return err
	}
	unlock, failed := s.root.lock()
	if failed != nil {
		return errors.Join(err, failed)
	}
	defer unlock()
	if _, none := os.Lstat(s.dir); errors.Is(none, fs.ErrNotExist) {
		_, failed = s.root.remove(Entry{Dir: s.dir})
	}
	return errors.Join(err, failed)
}

// name makes the directory for the slots of a dataset, and says whose they are, for people who wonder
// what takes their space.
func (r *Root) name(dir, dataset string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	path, text := filepath.Join(dir, datasetName), dataset+"\n"
	if was, err := readFirst(path); err == nil && string(was) == text {
		return nil
	}
	return os.WriteFile(path, []byte(text), 0o600)
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
	locks, err := filepath.Glob(filepath.Join(quoteGlob(r.dir), "*", "*.*"+lockSuffix))
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
		e := Entry{Kind: kindOf(path), Dir: strings.TrimSuffix(path, lockSuffix), Used: info.ModTime(), Use: readUse(path)}
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
