// Package cachedir shares one directory and one limit among all mounts of a user:
// what they prepare is kept there, each mount in a slot of its own.
//
//	limit                 bytes, in decimal; without it the limit follows the disk
//	lock                  held while slots are taken, counted and removed
//	DATASET/dataset       the path; DATASET is a digest of it
//	DATASET/overlay.N/    what a mount keeps; the next one finds it again
//	DATASET/overlay.N.lock  held by the mount that uses it; see [Use]
//	DATASET/blocks.N/     pieces of objects that are far away, in files that do not need each
//	                      other; one mount writes there, and all of DATASET read it
//	DATASET/blocks.N.lock   held by the mount that writes
//	DATASET/known.0/      what else is known of a place that is far away; all who read it share it
//	DATASET/known.0.lock  held by each of them
//	removed-*             what is about to be removed
//
// A mount reserves the bytes that it may write, and reserves more when they are used up.
// What is reserved counts as if it were used, so that no two mounts are given the same space.
// When there is none left, slots that no mount uses are removed, the one that was used
// longest ago first; of one with blocks as many files as need be. A mount that is killed
// loses its locks, and with them what it had reserved: its slot counts as what it holds.
// What is known of places takes no reserve: it counts, and goes like the rest.
package cachedir

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/pipefs/pipefs/internal/mounts"
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
	// a store, and packs that are not put there yet.
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
	return r.take(dataset, Overlay, mount, own)
}

// TakeBlocks gives a mount a slot for blocks of the objects of a place. own is a limit for all
// such slots together; 0 is none. What they hold goes file by file, the oldest first.
func (r *Root) TakeBlocks(place, mount string, own int64) (*Slot, error) {
	return r.take(place, Blocks, mount, own)
}

func (r *Root) take(dataset, kind, mount string, own int64) (*Slot, error) {
	defer r.collect()
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
	return slotDir(filepath.Join(r.dir, digest(place)), Known, 0)
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
	if err := mounts.Lock(context.Background(), f, syscall.LOCK_SH); err != nil {
		f.Close()
		return nil, err
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

// lock keeps all other processes from taking, counting and removing slots. One that was killed meanwhile,
// and waits in the kernel for the next daemon of its mount, does nothing of that, though it still holds
// the lock: the next daemon goes on without.
func (r *Root) lock() (unlock func(), err error) {
	path := filepath.Join(r.dir, lockName)
	f, err := vfs.OpenRegular(path, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, err
	}
	if err := mounts.Lock(context.Background(), f, syscall.LOCK_EX); err != nil && !errors.Is(err, mounts.ErrEnded) {
		f.Close()
		return nil, err
	}
	return func() { f.Close() }, nil
}

// entries looks at all slots. The directory is locked. It looks at nothing else: a mount may
// lie there that nobody serves yet.
func (r *Root) entries() ([]Entry, error) {
	locks, err := filepath.Glob(filepath.Join(quoteGlob(r.dir), strings.Repeat("[0-9a-f]", digestLength), "*.*"+lockSuffix))
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

// digestLength is that of a digest, in hexadecimal digits.
const digestLength = 16

// digest names a dataset by its path.
func digest(path string) string {
	sum := sha256.Sum256([]byte(path))
	return hex.EncodeToString(sum[:digestLength/2])
}
