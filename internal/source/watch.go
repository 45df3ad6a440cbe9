package source

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/mounts"
)

// Watcher tells what changes in directories of a dataset, by inotify. It uses
// inotify itself, and not by a library of paths: the tree knows one directory by
// several paths where links lead to it, inotify tells each change once, and here an
// event costs one string.
//
// It is safe for concurrent use, but one goroutine reads the events.
type Watcher struct {
	d   *Directory
	fd  int      // the instance, owned by f
	f   *os.File // reading waits in the runtime's poller
	buf []byte
	max int

	mu    sync.Mutex
	ids   map[WatchID]bool // nil after Close
	local map[uint64]error // by device: why it cannot be watched
}

// WatchID is a directory that is watched. None is 0. One directory has one, by
// whatever paths it is watched, and a number is not used again.
type WatchID int32

// Change says what happened.
type Change uint8

const (
	// Content says that a member, or its attributes, may have changed.
	Content Change = 1 << iota
	// Names says that a member of that name came, went, or was replaced.
	Names
	// Gone says that the directory itself was moved, deleted, or unmounted.
	Gone
	// Lost says that the system dropped events. Anything may have changed. There is no Dir.
	Lost
)

// Event is a change in a directory.
type Event struct {
	Dir  WatchID
	Name string // of the member; empty where the directory itself is meant
	Change
}

// Member is a name in a directory that is watched.
type Member struct {
	Dir  WatchID
	Name string
}

const (
	nameEvents = unix.IN_CREATE | unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO
	goneEvents = unix.IN_DELETE_SELF | unix.IN_MOVE_SELF | unix.IN_UNMOUNT | unix.IN_IGNORED
	watchMask  = nameEvents | unix.IN_MODIFY | unix.IN_ATTRIB | unix.IN_CLOSE_WRITE |
		unix.IN_DELETE_SELF | unix.IN_MOVE_SELF | unix.IN_EXCL_UNLINK | unix.IN_ONLYDIR
	// eventBuffer holds some thousand events.
	eventBuffer = 128 << 10
)

// errTooMany: the rest of what the system lets a user watch is for other programs.
var errTooMany = errors.New("half of the directories that the system lets a user watch are watched already (fs.inotify.max_user_watches)")

// Watch returns a watcher of the dataset, or an error that says why its directories
// cannot be watched: it does not lie on a local file system, it has more directories
// than half of what the system lets a user watch, or there is no inotify.
func (d *Directory) Watch() (*Watcher, error) {
	w := &Watcher{d: d, max: watchLimit(), ids: map[WatchID]bool{}, local: map[uint64]error{}}
	if err := w.fits(); err != nil {
		return nil, err
	}
	var err error
	if w.fd, err = unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK); err != nil {
		if errors.Is(err, unix.EMFILE) {
			err = errors.New("this user has as many inotify instances as the system permits (fs.inotify.max_user_instances)")
		}
		return nil, fmt.Errorf("no inotify: %w", err)
	}
	w.f = os.NewFile(uintptr(w.fd), "inotify")
	w.buf = make([]byte, eventBuffer)
	root, err := w.Add("")
	if err == nil {
		w.Drop(root)
		return w, nil
	}
	w.Close()
	return nil, err
}

// watchLimit is the number of directories that one mount may watch.
func watchLimit() int {
	const least = 8192 // that Linux has by itself
	limit := readInt("/proc/sys/fs/inotify/max_user_watches", least)
	return min(limit, readInt("/proc/sys/user/max_inotify_watches", limit)) / 2
}

// readInt reads a number from a file of the system, which may have none.
func readInt(file string, otherwise int) int {
	b, _ := os.ReadFile(file)
	if n, err := strconv.Atoi(strings.TrimSpace(string(b))); err == nil {
		return n
	}
	return otherwise
}

// countTime bounds how long a mount waits for the count of directories. Those that
// cannot be watched after all are told by Add.
const countTime = time.Second

// fits reports why the dataset cannot be watched, before anything is.
func (w *Watcher) fits() error {
	if err := w.device(w.d.dirFD); err != nil {
		return err
	}
	if n := w.d.directories(w.max, time.Now().Add(countTime)); n > w.max {
		return fmt.Errorf("it has more than %d directories, which is half of what the system lets a user watch (fs.inotify.max_user_watches)", w.max)
	}
	return nil
}

// directories counts the directories of the dataset, links not followed, until there
// are more than most or the time is up. Most file systems say in a directory's link
// count how many directories it has: those that have none need no listing.
func (d *Directory) directories(most int, until time.Time) int {
	n := 1
	goesOn := func() bool { return n <= most && time.Now().Before(until) }
	for todo := []string{""}; len(todo) > 0 && goesOn(); {
		dir := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		fd, err := d.openFD(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW)
		if err != nil {
			continue
		}
		f := os.NewFile(uintptr(fd), dir)
		for err == nil && goesOn() {
			// in pieces: a directory may have millions of members
			var found []fs.DirEntry
			found, err = f.ReadDir(4096)
			for _, e := range found {
				if !e.IsDir() {
					continue
				}
				n++
				name := path.Join(dir, e.Name())
				var st unix.Stat_t
				if err := unix.Fstatat(d.dirFD, name, &st, unix.AT_SYMLINK_NOFOLLOW); err == nil && st.Nlink != 2 {
					todo = append(todo, name)
				}
			}
		}
		f.Close()
	}
	return n
}

// Add watches a directory of the dataset, from now on. A directory that is watched
// already, by this path or another one, keeps its number.
func (w *Watcher) Add(dir string) (id WatchID, err error) {
	fd, err := w.d.openFD(dir, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return id, err
	}
	defer unix.Close(fd)
	return w.add(fd)
}

func (w *Watcher) add(fd int) (id WatchID, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ids == nil {
		return id, fs.ErrClosed
	}
	if err := w.device(fd); err != nil {
		return id, err
	}
	wd, err := unix.InotifyAddWatch(w.fd, "/proc/self/fd/"+strconv.Itoa(fd), watchMask)
	if err != nil {
		if errors.Is(err, unix.ENOSPC) {
			err = errTooMany
		}
		return id, fmt.Errorf("it cannot be watched: %w", err)
	}
	id = WatchID(wd)
	if !w.ids[id] && len(w.ids) >= w.max {
		_, _ = unix.InotifyRmWatch(w.fd, uint32(wd))
		return id, errTooMany
	}
	w.ids[id] = true
	return id, nil
}

// device returns an error unless an open directory lies on a local file system.
func (w *Watcher) device(fd int) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	err, known := w.local[st.Dev]
	if !known {
		var kind mounts.FileSystem
		if kind, err = mounts.FileSystemOf(fd); err == nil && !kind.Local {
			err = fmt.Errorf("its file system is %s, where changes by other machines are not told", kind.Name)
		}
		w.local[st.Dev] = err
	}
	return err
}

// maxHops is how many links the kernel follows.
const maxHops = 40

// Follow watches what a member of the dataset stands for, if it is a link: the
// directories in which the links that it leads to lie, and the target. It returns
// their names. A directory further above that is moved is not noticed.
func (w *Watcher) Follow(link string) (members []Member, err error) {
	dir, name := path.Split(link)
	at, err := w.d.openFD(strings.TrimSuffix(dir, "/"), unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	defer func() { unix.Close(at) }()
	target := make([]byte, unix.PathMax)
	for range maxHops {
		n, err := unix.Readlinkat(at, name, target)
		if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) {
			return members, nil // no link: the end
		}
		if err != nil {
			return members, &fs.PathError{Op: "readlink", Path: w.d.path(link), Err: err}
		}
		dir, name = path.Split(strings.TrimRight(string(target[:n]), "/"))
		if name == "" || name == "." || name == ".." {
			return members, nil // it cannot be renamed but by who moves the directory itself
		}
		if dir != "" {
			next, err := openAt(at, dir, unix.O_PATH|unix.O_DIRECTORY)
			if err != nil {
				return members, &fs.PathError{Op: "open", Path: w.d.path(link), Err: err}
			}
			unix.Close(at)
			at = next
		}
		id, err := w.add(at)
		if err != nil {
			return members, err
		}
		members = append(members, Member{id, name})
	}
	return members, nil
}

// Drop ends the watching of a directory.
func (w *Watcher) Drop(id WatchID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ids[id] {
		delete(w.ids, id)
		_, _ = unix.InotifyRmWatch(w.fd, uint32(id)) // it may have ended by itself
	}
}

// Read waits for events and appends them, some thousand at most. After Close it
// returns an error.
func (w *Watcher) Read(events []Event) ([]Event, error) {
	for {
		n, err := w.f.Read(w.buf)
		if err != nil {
			return events, err
		}
		before := len(events)
		if events = w.parse(events, w.buf[:n]); len(events) > before {
			return events, nil
		}
	}
}

func (w *Watcher) parse(events []Event, b []byte) []Event {
	for len(b) >= unix.SizeofInotifyEvent {
		id := WatchID(binary.NativeEndian.Uint32(b))
		mask := binary.NativeEndian.Uint32(b[4:])
		end := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(b[12:]))
		if end > len(b) {
			return append(events, Event{Change: Lost})
		}
		name, _, _ := strings.Cut(string(b[unix.SizeofInotifyEvent:end]), "\x00")
		b = b[end:]
		e := Event{Dir: id, Name: name}
		switch {
		case mask&unix.IN_Q_OVERFLOW != 0:
			e = Event{Change: Lost}
		case mask&nameEvents != 0:
			e.Change = Names
		case mask&goneEvents != 0:
			if mask&unix.IN_IGNORED != 0 && !w.ended(id) {
				continue // Drop was called
			}
			e.Change = Gone
		default:
			e.Change = Content
		}
		events = append(events, e)
	}
	return events
}

// ended forgets a directory that the kernel watches no more.
func (w *Watcher) ended(id WatchID) (known bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	known = w.ids[id]
	delete(w.ids, id)
	return known
}

// Count is the number of directories that are watched.
func (w *Watcher) Count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.ids)
}

// Close ends all watching. It may be called more than once.
func (w *Watcher) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ids == nil {
		return nil
	}
	w.ids = nil
	return w.f.Close()
}
