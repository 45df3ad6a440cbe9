package store

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"

	sorted "github.com/pipefs/pipefs/internal/index"
	"github.com/pipefs/pipefs/transcode"
)

// Identity distinguishes one version of a file of the dataset from every other. Two
// equal identities mean equal bytes; what a source cannot tell apart by them, pipefs
// cannot either.
type Identity struct {
	Size int64 // bytes
	// Version is understood by the source alone: a directory has inode and times there,
	// a bucket a hash of the ETag. The store only compares it.
	Version [24]byte
}

// Kind is the kind of an entry. The numbers are stored; never reorder them.
type Kind uint8

// The kinds.
const (
	File      Kind = iota + 1 // a sample, or any other file of the dataset
	Dir                       // a directory, kept even where it is empty
	Tombstone                 // what used to be there is gone
)

func (k Kind) String() string {
	switch k {
	case File:
		return "file"
	case Dir:
		return "directory"
	case Tombstone:
		return "tombstone"
	}
	return "unknown kind"
}

// Sample is one entry of the dataset's tree as it is stored. A directory has no
// Info and no representations.
type Sample struct {
	// Path relative to the dataset, with slashes; "" is the dataset itself.
	Path string
	Kind Kind
	// Mode holds the permission bits (07777), nothing else.
	Mode   uint32
	Source Identity
	Info   transcode.Info
	// Fault says why no codec could read the file; "" where one could.
	Fault string
	// Seq is the position in packed order: entries with ascending Seq lie at
	// ascending places of ascending packs. A store grows at its end, so numbers
	// of replaced and removed entries are missing.
	Seq             int64
	Representations []Representation
}

// Representation finds a representation by its key, nil where there is none.
func (s *Sample) Representation(key string) *Representation {
	for i := range s.Representations {
		if s.Representations[i].Key == key {
			return &s.Representations[i]
		}
	}
	return nil
}

// Representation is what a prefix of a pipeline made of a sample: parts of
// packs, and a few literal bytes.
type Representation struct {
	// Key names the prefix and the implementation of its steps: "original",
	// "scan@jpeg1", "resize256-bmp@…". Equal keys over an equal source are equal
	// bytes.
	Key string
	// Parts in order, all of one pack; the whole is their concatenation, then Tail.
	Parts []Part
	// Levels[k-1] is the number of leading parts that argument k takes. Empty:
	// there is only the whole.
	Levels []int
	// Tail follows the parts at every level: a JPEG's EOI.
	Tail []byte

	path string // of the sample
	src  Identity
}

// Part is a range of a pack.
type Part struct {
	Pack     uint32
	Off, Len int64 // bytes
	// Sums holds the CRC32C of each ChunkSize bytes of the part; the last chunk
	// may be shorter.
	Sums []uint32
}

// ChunkSize is the number of bytes that one checksum covers at most.
const ChunkSize = 64 << 10

// Size is the length in bytes at a level; 0 is the whole. It is -1 for a level
// that the representation does not have.
func (r *Representation) Size(level int) int64 {
	n, ok := r.parts(level)
	if !ok {
		return -1
	}
	size := int64(len(r.Tail))
	for _, p := range r.Parts[:n] {
		size += p.Len
	}
	return size
}

// parts is the number of leading parts that a level takes.
func (r *Representation) parts(level int) (int, bool) {
	switch {
	case level == 0:
		return len(r.Parts), true
	case level < 0 || level > len(r.Levels):
		return 0, false
	}
	return r.Levels[level-1], true
}

// Child is an entry of a directory.
type Child struct {
	Name string
	Kind Kind // File or Dir
	Seq  int64
}

func bySeq(a, b Child) int { return cmp.Compare(a.Seq, b.Seq) }

// The classes of error, for errors.Is.
var (
	// ErrNotFound: the store does not hold that path, or the overlay not that
	// representation.
	ErrNotFound = errors.New("not in the store")
	// ErrNotDir: List was asked about a file.
	ErrNotDir = errors.New("not a directory")
	// ErrNotStore: the directory is no store.
	ErrNotStore = errors.New("not a pipefs store")
	// ErrVersion: another version of pipefs wrote this.
	ErrVersion = errors.New("written by another version of pipefs")
	// ErrCorrupt is the class of every CorruptError.
	ErrCorrupt = errors.New("corrupt")
	// ErrLocked: another process writes here.
	ErrLocked = errors.New("in use by another process")
	// ErrFull: the overlay's budget or the disk is used up. Nothing is broken;
	// what was to be kept has to be made again next time.
	ErrFull = errors.New("full")
	// ErrClosed: the store was closed.
	ErrClosed = errors.New("the store is closed")
	// ErrChanged: a file of the dataset kept changing while it was read.
	ErrChanged = errors.New("the file changed while it was read")
)

// CorruptError says what is broken and where. Its class is ErrCorrupt.
type CorruptError struct {
	Pack   string // its name; "" where no pack is concerned
	Offset int64  // in the pack, bytes
	Path   string // of the sample, or of a file of the store; may be empty
	Cause  error
}

func (e *CorruptError) Error() string {
	var b strings.Builder
	if e.Pack != "" {
		fmt.Fprintf(&b, "%s, offset %d", e.Pack, e.Offset)
	}
	if e.Path != "" {
		if b.Len() > 0 {
			fmt.Fprintf(&b, " (%s)", e.Path)
		} else {
			b.WriteString(e.Path)
		}
	}
	if b.Len() > 0 {
		b.WriteString(": ")
	}
	fmt.Fprintf(&b, "corrupt: %v", e.Cause)
	return b.String()
}

// Is makes every CorruptError one of the class ErrCorrupt.
func (e *CorruptError) Is(target error) bool { return target == ErrCorrupt }

func (e *CorruptError) Unwrap() error { return e.Cause }

// errSum is the cause where data is not what it was.
var errSum = sorted.ErrSum

// isIOError reports whether the operating system refused an operation, which
// says nothing about what the file holds.
func isIOError(err error) bool {
	var pe *fs.PathError
	var no syscall.Errno
	return errors.As(err, &pe) || errors.As(err, &no)
}
