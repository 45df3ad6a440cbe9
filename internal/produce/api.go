package produce

import (
	"errors"
	"io"
	"io/fs"

	"github.com/pipefs/pipefs/internal/dataset"
)

// Errors that callers tell apart. All others mean that the file cannot be read.
var (
	// ErrChanged: the file is no longer the one that was looked up. Look it up
	// again.
	ErrChanged = dataset.ErrChanged
	// ErrNotExist and ErrPermission are those of io/fs.
	ErrNotExist   = fs.ErrNotExist
	ErrPermission = fs.ErrPermission
	// ErrRefused: the view would harm what nobody said that it may. See [Refusal].
	ErrRefused = errors.New("refused")
)

// errNoOriginal: the store cannot give the original back and there is no
// dataset.
var errNoOriginal = errors.New("the original was dropped when it was packed (or packed by another version), and there is no dataset: name it with --dataset DIR, or pack again with --originals rebuild")

// Attr is what stat tells of a file or directory of the tree.
type Attr = dataset.Attr

// Entry is a member of a directory of the tree.
type Entry = dataset.Entry

// Identity of a file of the tree.
type Identity = dataset.Identity

// Source is where the tree comes from. Paths are relative to its root, with
// slashes; "" is the root. It is safe for concurrent use.
type Source interface {
	// List returns the members of a directory in the order in which the mount
	// shows them: by name, or as they lie in the packs.
	List(dir string) ([]Entry, error)
	// Stat returns the attributes of a file or directory.
	Stat(path string) (Attr, error)
	// Fresh is Stat that goes past what a network file system has cached.
	Fresh(path string) (Attr, error)
}

// File names a file of the tree, as it was when it was looked up.
type File struct {
	Path     string
	Identity Identity
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
