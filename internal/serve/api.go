package serve

import (
	"errors"
	"io"
	"io/fs"

	"github.com/pipefs/pipefs/internal/source"
)

// Errors that callers tell apart. All others mean that the file cannot be read.
var (
	// ErrChanged: the file is no longer the one that was looked up. Look it up
	// again.
	ErrChanged = source.ErrChanged
	// ErrNotExist and ErrPermission are those of io/fs.
	ErrNotExist   = fs.ErrNotExist
	ErrPermission = fs.ErrPermission
	// ErrRefused: the view would harm what nobody said that it may. See [Refusal].
	ErrRefused = errors.New("refused")
)

// errNoOriginal: the store cannot give the original back and there is no
// dataset.
var errNoOriginal = errors.New("the original was dropped when it was packed (or packed by another version), and there is no dataset: name it with --dataset DIR, or pack again with --originals rebuild")

// File names a file of the tree, as it was when it was looked up.
type File struct {
	Path     string
	Identity source.Identity
}

// Key identifies a file of a view within a mount: a number that is never used
// for other bytes.
type Key = uint64

// Result is what Resolve tells.
type Result struct {
	// Size of the view's file, exact, in bytes.
	Size int64
	// Unchanged: the view shows the file as it is.
	Unchanged bool
}

// ReaderAt is what Content holds open.
type ReaderAt interface {
	io.ReaderAt
	io.Closer
}
