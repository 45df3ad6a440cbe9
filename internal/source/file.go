package source

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"golang.org/x/sys/unix"
)

// ErrChanged marks a file that is no longer the one that was seen before.
var ErrChanged = errors.New("the file changed in the dataset")

// Limit slows reading down, for measurements.
type Limit interface {
	// Begin is when a read begins, for Done.
	Begin() time.Time
	// Done waits until n bytes may have been read.
	Done(began time.Time, n int)
}

// File is an open file of a dataset.
type File struct {
	Identity Identity // when it was Opened
	Opened
}

// Opened is what a kind of dataset does with an open file.
type Opened interface {
	// ReadAt implements [io.ReaderAt]. What it returned is of one piece with earlier
	// reads only if Verify agrees afterwards.
	io.ReaderAt
	// Close closes the file.
	io.Closer
	// Name is the absolute path of the file, or its URL.
	Name() string
	// Verify returns ErrChanged unless the open file still is what it was when it
	// was opened. Call it after reading: what was read before is then of one piece.
	Verify() error
	// Scattered says, before anything is read, that little will be: for who looks at headers,
	// and at nothing else. Who reads the rest afterwards is slower for it.
	Scattered()
	// Fetch says that n bytes from off on are read soon. It is only advice.
	Fetch(off, n int64)
}

// ReadAll reads the whole file and verifies that it did not change meanwhile.
func (f *File) ReadAll() ([]byte, error) {
	data := make([]byte, f.Identity.Size)
	if _, err := f.ReadAt(data, 0); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("%s: %w", f.Name(), ErrChanged)
		}
		return nil, err
	}
	return data, f.Verify()
}

// directoryFile is an open file of a directory. It holds a bare descriptor: the read
// path has no use for the runtime's poller, and pays for it.
type directoryFile struct {
	File // that it is
	fd   int
	of   *Directory
	path string // below the root
}

func identity(st *unix.Stat_t) Identity {
	return Identity{ID: st.Ino, Size: st.Size, MTime: st.Mtim.Nano(), CTime: st.Ctim.Nano()}
}

// OpenAs implements [Dataset].
func (d *Directory) OpenAs(name string, id Identity) (*File, error) {
	f, err := d.openAs(name, id)
	if err != nil {
		return nil, err
	}
	return &f.File, nil
}

func (d *Directory) openAs(name string, id Identity) (*directoryFile, error) {
	// O_NONBLOCK: a FIFO that took the file's place must not hang the reader.
	fd, err := d.openFD(name, unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return nil, err
	}
	f := &directoryFile{fd: fd, of: d, path: name}
	f.File = File{Identity: id, Opened: f}
	return f, nil
}

// Open implements [Dataset].
func (d *Directory) Open(name string) (*File, error) {
	f, err := d.openAs(name, Identity{})
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(f.fd, &st); err != nil {
		f.Close()
		return nil, &fs.PathError{Op: "stat", Path: f.Name(), Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		f.Close()
		return nil, &fs.PathError{Op: "open", Path: f.Name(), Err: errors.New("no regular file")}
	}
	f.Identity = identity(&st)
	return &f.File, nil
}

// Name implements [Opened].
func (f *directoryFile) Name() string { return f.of.path(f.path) }

// Close implements [Opened].
func (f *directoryFile) Close() error { return unix.Close(f.fd) }

// Scattered implements [Opened]: it turns the system's read-ahead off.
func (f *directoryFile) Scattered() {
	_ = unix.Fadvise(f.fd, 0, 0, unix.FADV_RANDOM) // only advice
}

// Fetch implements [Opened].
func (f *directoryFile) Fetch(off, n int64) {
	_ = unix.Fadvise(f.fd, off, n, unix.FADV_WILLNEED) // only advice
}

// ReadAt implements [Opened].
func (f *directoryFile) ReadAt(b []byte, off int64) (int, error) {
	if f.of.limit == nil {
		return f.pread(b, off)
	}
	began := f.of.limit.Begin()
	n, err := f.pread(b, off)
	f.of.limit.Done(began, n)
	return n, err
}

func (f *directoryFile) pread(b []byte, off int64) (int, error) {
	done := 0
	for done < len(b) {
		n, err := unix.Pread(f.fd, b[done:], off+int64(done))
		switch {
		case err == unix.EINTR:
		case err != nil:
			return done, &fs.PathError{Op: "read", Path: f.Name(), Err: err}
		case n == 0:
			return done, io.EOF
		default:
			done += n
		}
	}
	return done, nil
}

// Verify implements [Opened].
func (f *directoryFile) Verify() error {
	var st unix.Stat_t
	if err := unix.Fstat(f.fd, &st); err != nil {
		return &fs.PathError{Op: "stat", Path: f.Name(), Err: err}
	}
	if identity(&st) != f.Identity {
		return fmt.Errorf("%s: %w", f.Name(), ErrChanged)
	}
	return nil
}
