// Package source is where names and original bytes come from. A [Tree] tells names and
// attributes. A [Directory] is the tree of a directory of the user; it is never written to.
//
// A path is relative to the dataset's root, with slashes, and "" is the root
// itself. Symbolic links are followed and appear as what they point to, since
// Hugging Face snapshots and link farms are made of them; a link that leads back
// to a directory above itself is a cycle and is left out, and so is one that
// leads nowhere. With [Options.NoFollow] no link may leave the dataset.
//
// An [Identity] tells whether a file is still the one that was seen before. A
// [Watcher] tells when it is time to look, on local file systems.
package source

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Options of Open.
type Options struct {
	// NoFollow refuses links that leave the dataset, absolute links included.
	NoFollow bool
	// Names is how many names of a directory are listed at most; 0 is all.
	Names int
	// Log receives a line for each entry that is left out; nil is silent.
	Log *slog.Logger
	// Limit is how fast the bytes of files are read, for measurements; nil is as fast
	// as can be.
	Limit Limit
}

// Directory is an open dataset in a directory. It is safe for concurrent use.
type Directory struct {
	root   string
	dirFD  int  // the root, open: a moved dataset keeps working
	inside bool // no link may leave it
	log    *slog.Logger
	limit  Limit
	names  int // that List returns at most, or -1
}

// Identity of a file: two equal ones are taken to be the same bytes.
type Identity struct {
	ID           uint64 // tells files apart: of one in a directory, its inode number
	Size         int64  // bytes
	MTime, CTime int64  // ns since 1970
}

// Attr is what stat tells of a file or directory.
type Attr struct {
	Identity
	Mode     fs.FileMode // type, permissions, and the set-user-ID, set-group-ID and sticky bits
	UID, GID uint32
}

// SpecialBits are those that programs of other systems rarely keep.
const SpecialBits = fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky

var specialBits = map[fs.FileMode]uint32{fs.ModeSetuid: unix.S_ISUID, fs.ModeSetgid: unix.S_ISGID, fs.ModeSticky: unix.S_ISVTX}

// ModeOf is the mode, without a type, that chmod(2) knows by bits of its own.
func ModeOf(bits uint32) fs.FileMode {
	m := fs.FileMode(bits).Perm()
	for mode, bit := range specialBits {
		if bits&bit != 0 {
			m |= mode
		}
	}
	return m
}

// BitsOf are the bits of chmod(2).
func BitsOf(m fs.FileMode) uint32 {
	bits := uint32(m.Perm())
	for mode, bit := range specialBits {
		if m&mode != 0 {
			bits |= bit
		}
	}
	return bits
}

// Entry is a member of a directory.
type Entry struct {
	Name string
	Dir  bool
	Link bool // it is a symbolic link to what it is shown as
}

// Open opens the dataset at root, which has to be a directory.
func Open(root string, o Options) (*Directory, error) {
	abs, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	dir, err := openAt(unix.AT_FDCWD, abs, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return nil, fmt.Errorf("dataset: %w", &fs.PathError{Op: "open", Path: abs, Err: err})
	}
	d := &Directory{root: abs, dirFD: dir, inside: o.NoFollow, log: o.Log, limit: o.Limit, names: cmp.Or(o.Names, -1)}
	if d.log == nil {
		d.log = slog.New(slog.DiscardHandler)
	}
	return d, nil
}

// Close releases the dataset; files opened from it stay open.
func (d *Directory) Close() error { return unix.Close(d.dirFD) }

// Reopen opens the directory that has the path of the dataset by now, if the one that is open was
// deleted. again reports whether it did. The error says that the dataset is not there.
func (d *Directory) Reopen() (again bool, err error) {
	var st unix.Stat_t
	if err := unix.Fstat(d.dirFD, &st); err != nil || st.Nlink > 0 {
		return false, err
	}
	fd, err := openAt(unix.AT_FDCWD, d.root, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return false, fmt.Errorf("%s was deleted", d.root)
	}
	defer unix.Close(fd)
	return true, unix.Dup3(fd, d.dirFD, unix.O_CLOEXEC) // at once, for all who use it
}

// Root is the absolute path of the dataset.
func (d *Directory) Root() string { return d.root }

// path is the absolute path of a member.
func (d *Directory) path(name string) string { return path.Join(d.root, name) }

// openAt opens a path that begins at an open directory.
func openAt(dir int, name string, flags int) (fd int, err error) {
	return unix.Openat(dir, name, flags|unix.O_CLOEXEC, 0)
}

// openFD opens a path under the root by the rule for links.
func (d *Directory) openFD(name string, flags int) (int, error) {
	member := name
	if member == "" {
		member = "."
	}
	how := unix.OpenHow{Flags: uint64(flags | unix.O_CLOEXEC)}
	if d.inside {
		how.Resolve = unix.RESOLVE_BENEATH
	}
	for {
		fd, err := unix.Openat2(d.dirFD, member, &how)
		if errors.Is(err, unix.ENOSYS) && !d.inside { // before Linux 5.6
			fd, err = openAt(d.dirFD, member, flags)
		}
		switch {
		case err == nil:
			return fd, nil
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.EAGAIN):
		case errors.Is(err, unix.EXDEV) && d.inside:
			return fd, &fs.PathError{Op: "open", Path: d.path(name), Err: errOutside}
		default:
			return fd, &fs.PathError{Op: "open", Path: d.path(name), Err: err}
		}
	}
}

// errOutside is EACCES with an explanation.
var errOutside = fmt.Errorf("a link leaves the dataset and links are not followed here: %w", unix.EACCES)

// Stat returns the attributes of a file or directory, links followed.
func (d *Directory) Stat(name string) (Attr, error) { return attr(d.stat(name)) }

// Fresh is Stat of a file as it is now: a network file system asks its server, as it
// does when a file is opened, where Stat may be answered by what it has cached.
func (d *Directory) Fresh(name string) (Attr, error) {
	at, member, flags := d.dirFD, name, unix.AT_STATX_FORCE_SYNC
	if d.inside || name == "" {
		fd, err := d.openFD(name, unix.O_PATH)
		if err != nil {
			return Attr{}, err
		}
		defer unix.Close(fd)
		at, member, flags = fd, "", flags|unix.AT_EMPTY_PATH
	}
	var x unix.Statx_t
	switch err := unix.Statx(at, member, flags, unix.STATX_BASIC_STATS, &x); {
	case errors.Is(err, unix.ESTALE):
		return Attr{}, fmt.Errorf("%s: %w", d.path(name), ErrChanged)
	case errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EPERM): // before Linux 4.11, and where it is filtered
		return d.Stat(name)
	case err != nil:
		return Attr{}, &fs.PathError{Op: "stat", Path: d.path(name), Err: err}
	}
	st := unix.Stat_t{Ino: x.Ino, Size: int64(x.Size), Mode: uint32(x.Mode), Uid: x.Uid, Gid: x.Gid}
	st.Mtim.Sec, st.Mtim.Nsec = x.Mtime.Sec, int64(x.Mtime.Nsec)
	st.Ctim.Sec, st.Ctim.Nsec = x.Ctime.Sec, int64(x.Ctime.Nsec)
	return attr(st, nil)
}

func attr(st unix.Stat_t, err error) (Attr, error) {
	if err != nil {
		return Attr{}, err
	}
	a := Attr{Identity: identity(&st), Mode: ModeOf(st.Mode), UID: st.Uid, GID: st.Gid}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
	case unix.S_IFDIR:
		a.Mode |= fs.ModeDir
	default:
		a.Mode |= fs.ModeIrregular
	}
	return a, nil
}

func (d *Directory) stat(name string) (st unix.Stat_t, err error) {
	if !d.inside && name != "" {
		// one system call where the rule for links is the kernel's own
		if err := unix.Fstatat(d.dirFD, name, &st, 0); err != nil {
			return st, &fs.PathError{Op: "stat", Path: d.path(name), Err: err}
		}
		return st, nil
	}
	fd, err := d.openFD(name, unix.O_PATH)
	if err != nil {
		return st, err
	}
	defer unix.Close(fd)
	if err := unix.Fstat(fd, &st); err != nil {
		return st, &fs.PathError{Op: "stat", Path: d.path(name), Err: err}
	}
	return st, nil
}

// statIn returns Stat for the members of a directory, by their names in it: the kernel then looks up one name
// for each. Call done at the end.
func (d *Directory) statIn(dir string) (stat func(name string) (Attr, error), done func()) {
	slow := func(name string) (Attr, error) { return d.Stat(path.Join(dir, name)) }
	if d.inside {
		return slow, func() {}
	}
	fd, err := d.openFD(dir, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return slow, func() {} // which says why
	}
	return func(name string) (Attr, error) {
		var st unix.Stat_t
		if err := unix.Fstatat(fd, name, &st, 0); err != nil {
			return Attr{}, &fs.PathError{Op: "stat", Path: d.path(path.Join(dir, name)), Err: err}
		}
		return attr(st, nil)
	}, func() { _ = unix.Close(fd) }
}

// List returns the members of a directory that the mount shows, sorted by name:
// regular files and directories, links followed.
func (d *Directory) List(name string) ([]Entry, error) {
	fd, err := d.openFD(name, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), d.path(name))
	defer f.Close()
	found, err := f.ReadDir(d.names)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	entries := make([]Entry, 0, len(found))
	for _, e := range found {
		kind := e.Type()
		link := kind&fs.ModeSymlink != 0
		if link {
			target, err := d.follow(path.Join(name, e.Name()))
			if err != nil {
				d.log.Warn("link left out", "path", d.path(path.Join(name, e.Name())), "cause", err)
				continue
			}
			kind = target.Type()
		}
		switch {
		case kind.IsDir():
			entries = append(entries, Entry{Name: e.Name(), Dir: true, Link: link})
		case kind.IsRegular():
			entries = append(entries, Entry{Name: e.Name(), Link: link})
		default:
			d.log.Warn("special file left out", "path", d.path(path.Join(name, e.Name())), "type", kind)
		}
	}
	slices.SortFunc(entries, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	return entries, nil
}

// errCycle marks a link to a directory that holds it.
var errCycle = fmt.Errorf("the link leads back to a directory above it: %w", unix.ELOOP)

// follow tells the mode of a link's target, and refuses one that would make the
// tree endless.
func (d *Directory) follow(link string) (fs.FileMode, error) {
	target, err := d.stat(link)
	a, err := attr(target, err)
	for above := link; a.Mode.IsDir() && above != ""; {
		above = parent(above)
		dir, err := d.stat(above)
		if err == nil && dir.Dev == target.Dev && dir.Ino == target.Ino {
			err = errCycle
		}
		if err != nil {
			return a.Mode, err
		}
	}
	return a.Mode, err
}

// Files yields the paths of all files below the root, as list lists directories. Of a directory
// that cannot be listed it yields the path and the error.
func Files(list func(dir string) ([]Entry, error)) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		var walk func(dir string) bool
		walk = func(dir string) bool {
			entries, err := list(dir)
			if err != nil {
				return yield(dir, err)
			}
			for _, e := range entries {
				name := path.Join(dir, e.Name)
				if e.Dir && !walk(name) || !e.Dir && !yield(name, nil) {
					return false
				}
			}
			return true
		}
		walk("")
	}
}

// Tree is where the names and attributes of files come from. Paths are relative to its
// root, with slashes; "" is the root. It is safe for concurrent use.
type Tree interface {
	// List returns the members of a directory in the order in which a mount shows
	// them: by name, or as they lie in the packs of a store.
	List(dir string) ([]Entry, error)
	// Stat returns the attributes of a file or directory, links followed.
	Stat(path string) (Attr, error)
	// Fresh is Stat that goes past what a network file system has cached.
	Fresh(path string) (Attr, error)
}

// Dataset is a tree whose files can be read: a [Directory]. It is safe for
// concurrent use.
type Dataset interface {
	Tree
	// Root is where it is: the absolute path of a directory, or a URL.
	Root() string
	// Open opens a regular file for reading.
	Open(name string) (*File, error)
	// OpenAs opens a file for reading that had an identity before. Whether it still has is
	// known only once Verify agrees: what is read until then may be of any other file.
	OpenAs(name string, id Identity) (*File, error)
	// Close releases the dataset; files opened from it stay open.
	Close() error
}

// Version is what an identity has beside the size: bytes that only the source that made
// them understands. Two equal ones of one name and size are taken to be the same bytes.
type Version [24]byte

// Version returns the bytes that stand for inode, mtime and ctime.
func (i Identity) Version() (v Version) {
	binary.LittleEndian.PutUint64(v[0:], i.ID)
	binary.LittleEndian.PutUint64(v[8:], uint64(i.MTime))
	binary.LittleEndian.PutUint64(v[16:], uint64(i.CTime))
	return v
}

// IdentityOf is the identity of that size and version.
func IdentityOf(size int64, v Version) Identity {
	return Identity{
		ID: binary.LittleEndian.Uint64(v[0:]), Size: size,
		MTime: int64(binary.LittleEndian.Uint64(v[8:])), CTime: int64(binary.LittleEndian.Uint64(v[16:])),
	}
}

// Stats returns the attributes of some members of a directory, or the error of each.
func Stats(t Tree, dir string, members []Entry) ([]Attr, []error) {
	attrs, errs := make([]Attr, len(members)), make([]error, len(members))
	stat := func(name string) (Attr, error) { return t.Stat(path.Join(dir, name)) }
	if d, ok := t.(*Directory); ok {
		in, done := d.statIn(dir)
		defer done()
		stat = in
	}
	for i := range members {
		attrs[i], errs[i] = stat(members[i].Name)
	}
	return attrs, errs
}
