package blob

import (
	"context"
	"errors"
	"io"
	"iter"
	"time"
)

// The classes of error, for errors.Is. A name that is not there is of the class
// [io/fs.ErrNotExist], and what the credentials do not permit of [io/fs.ErrPermission].
var (
	// ErrExists: PutIfAbsent found an object of that name.
	ErrExists = errors.New("the object exists")
	// ErrChanged: the object is not of the version that was named.
	ErrChanged = errors.New("the object was replaced")
	// ErrUnavailable: the server did not answer, or only with errors, until the time for it was up.
	ErrUnavailable = errors.New("the server does not answer")
)

// Version tells two contents of an object apart. Two equal ones of one name are taken to be the
// same bytes.
type Version string

// Info is what is known of an object without reading it.
type Info struct {
	Name     string // relative to the place, with slashes
	Size     int64  // bytes
	Version  Version
	Modified time.Time
	// Dir: this is no object but the common prefix of several, without its last slash.
	Dir bool
}

// Objects is a place for sealed objects. It is safe for concurrent use. What goes wrong on the way
// to a server is tried again within the limits of the place and of ctx; an error is final.
type Objects interface {
	// String names the place for messages: a path or a URL. It holds no credentials.
	String() string
	// Stat returns what is known of an object.
	Stat(ctx context.Context, name string) (Info, error)
	// List returns the objects whose names begin with prefix, sorted by the bytes of their
	// names, a page at a time. If deep is false, those with a slash behind the prefix are
	// summed up as one Info with Dir for each part up to that slash.
	List(ctx context.Context, prefix string, deep bool) iter.Seq2[[]Info, error]
	// ReadAt fills b with the bytes of an object from off on. The error is of the class
	// ErrChanged where the object is of another version, and io.ErrUnexpectedEOF where it
	// ends before b is full.
	ReadAt(ctx context.Context, name string, v Version, b []byte, off int64) error
	// PutIfAbsent makes an object of size bytes of body durable, whole or not at all. ErrExists
	// says that there is one.
	PutIfAbsent(ctx context.Context, name string, body io.ReaderAt, size int64) (Version, error)
	// PutIfMatch replaces a small object if it is of that version, or makes it if v is "" and
	// there is none. ErrChanged says that another writer was first.
	PutIfMatch(ctx context.Context, name string, v Version, data []byte) (Version, error)
	// Delete removes an object; one that is not there is no error.
	Delete(ctx context.Context, name string) error
}
