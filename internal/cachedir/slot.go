package cachedir

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/pipefs/pipefs/store/vfs"
)

const (
	lockSuffix = ".lock"
	maxSlots   = 1000 // of a dataset
)

// Use is what the lock file of a slot says while a mount has it.
type Use struct {
	Mount    string `json:"mount"`    // the directory of the mount
	Reserved int64  `json:"reserved"` // bytes
}

// Slot is a directory that this process holds alone.
type Slot struct {
	// Dir need not exist.
	Dir string

	root *Root // nil for a directory of the user, which has a limit of its own
	lock *os.File
	own  int64 // the limit that the mount, or its kind of slots, has of its own; 0: none

	mu      sync.Mutex
	use     Use
	refused time.Time
}

// TakeSlot finds the first directory dir/overlay.N that nobody holds: several mounts
// of one dataset each get their own, and find it again the next time.
func TakeSlot(dir string) (*Slot, error) { return takeSlot(dir, Overlay) }

func takeSlot(dir, kind string) (*Slot, error) {
	for n := range maxSlots {
		at := slotDir(dir, kind, n)
		lock, err := tryLock(at + lockSuffix)
		if errors.Is(err, errHeld) {
			continue
		}
		if err != nil {
			return nil, err
		}
		return &Slot{Dir: at, lock: lock}, nil
	}
	return nil, fmt.Errorf("%s: a thousand mounts of one dataset", dir)
}

// slotDir is the directory of a slot of a dataset.
func slotDir(dir, kind string, n int) string {
	return filepath.Join(dir, fmt.Sprintf("%s.%d", kind, n))
}

// Release unlocks the directory.
func (s *Slot) Release() {
	now := time.Now()
	_ = os.Chtimes(s.lock.Name(), now, now) // when it was used last
	s.lock.Close()
}

// Kept reports whether mounts have kept in dir what they prepared.
func Kept(dir string) bool {
	_, err := os.Lstat(slotDir(dir, Overlay, 0) + lockSuffix)
	return err == nil
}

var errHeld = errors.New("in use")

// tryLock opens a file, made if need be, and locks it. errHeld says that another
// process has it locked.
func tryLock(path string) (*os.File, error) {
	f, err := vfs.OpenRegular(path, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, err
	}
	err = vfs.Flock(f, syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		return f, nil
	}
	f.Close()
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, errHeld
	}
	return nil, &os.PathError{Op: "lock", Path: path, Err: err}
}

// readFirst reads a file of at most a few kilobytes.
func readFirst(path string) ([]byte, error) {
	f, err := vfs.OpenRegular(path, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, 2*noteBytes))
}

// fit makes room for what a slot that was just taken holds, or gives up what is too much. The
// directory is locked.
func (s *Slot) fit() error {
	for _, l := range s.limits() {
		bytes, others, err := s.root.others(l, s)
		if err != nil {
			return err
		}
		if s.use.Reserved > bytes {
			if s.use.Reserved, err = s.root.shrink(Entry{Dir: s.Dir, Kind: s.kind()}, bytes); err != nil {
				return err
			}
		}
		if _, err := s.root.makeRoom(others, bytes-s.use.Reserved); err != nil {
			return err
		}
	}
	return nil
}

func (s *Slot) kind() string { return kindOf(s.Dir) }

// Beside returns the directories of all slots of the same kind and dataset, its own among
// them. Other processes write there, and remove what they like.
func (s *Slot) Beside() ([]string, error) {
	locks, err := filepath.Glob(filepath.Join(quoteGlob(filepath.Dir(s.Dir)), s.kind()+".*"+lockSuffix))
	for i, path := range locks {
		locks[i] = strings.TrimSuffix(path, lockSuffix)
	}
	return locks, err
}

// limits are those that a slot draws on, by the kind of slots that they are for: that of the
// directory, and where blocks have one of their own, that.
func (s *Slot) limits() []string {
	if s.kind() == Blocks && s.own > 0 {
		return []string{"", Blocks}
	}
	return []string{""}
}

// ErrFull says that all mounts together have used up the limit.
var ErrFull = errors.New("the limit of the cache directory is used up")

// maxStep is how much is reserved beyond what is asked for at most, in bytes.
const maxStep = 64 << 20

// again is how long a refusal holds: counting what is there takes a while.
const again = 5 * time.Second

// Reserve is asked before the slot holds so many bytes. ErrFull says that there is no space,
// for now.
func (s *Slot) Reserve(bytes int64) error {
	if s.root == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if bytes <= s.use.Reserved {
		if s.use.Reserved-bytes <= 2*maxStep {
			return nil
		}
		s.use.Reserved = bytes + maxStep // the slot shrank; other mounts get the rest
		return s.note()
	}
	if time.Since(s.refused) < again {
		return ErrFull
	}
	unlock, err := s.root.lock()
	if err != nil {
		return err
	}
	defer func() {
		unlock()
		go s.root.collect() // takes a while; the caller does not wait for it
	}()
	reserved := int64(math.MaxInt64)
	for _, l := range s.limits() {
		limit, others, err := s.root.others(l, s)
		if err != nil {
			return err
		}
		// In steps, so that it is not asked for each sample.
		step := min(max(limit/64, 1<<20), maxStep)
		theirs, err := s.root.makeRoom(others, limit-bytes-step)
		if err != nil {
			return err
		}
		if theirs+bytes > limit {
			s.refused = time.Now()
			return ErrFull
		}
		reserved = min(reserved, bytes+step, limit-theirs)
	}
	s.use.Reserved = reserved
	return s.note()
}

// note writes what the slot is used for into its lock file.
func (s *Slot) note() error {
	text, err := json.Marshal(s.use)
	if err != nil {
		return err
	}
	// One write of always the same length: no reader gets half of it.
	_, err = s.lock.WriteAt(fmt.Appendf(nil, "%-*s\n", noteBytes-1, text), 0)
	return err
}

const noteBytes = 4096

// readUse reads what a slot is used for; the zero value where that is not known.
func readUse(path string) (use Use) {
	text, err := readFirst(path)
	if err != nil || json.Unmarshal(text, &use) != nil || use.Reserved < 0 {
		return Use{}
	}
	return use
}
