package store

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"

	"github.com/pipefs/pipefs/internal/sealed"
)

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
var errSum = sealed.ErrSum

// isIOError reports whether the operating system refused an operation, which
// says nothing about what the file holds.
func isIOError(err error) bool {
	var pe *fs.PathError
	var no syscall.Errno
	return errors.As(err, &pe) || errors.As(err, &no)
}
