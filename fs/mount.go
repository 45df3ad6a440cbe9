package fs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"sync"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/fs/conn"
	"github.com/pipefs/pipefs/internal/mounts"
)

// MountOptions of Mount.
type MountOptions struct {
	// Source is shown as the device: the dataset's path.
	Source string
	// AllowOther lets other users in, as far as permissions of the files let them.
	AllowOther bool
	// Options are further options of mount(8), such as "noexec". That it is
	// read-only and that permissions are checked needs no saying.
	Options []string
	// ReadAhead in bytes; 0 means DefaultReadAhead. It needs a permission that
	// users have not; then the kernel's default stays.
	ReadAhead int
	// Premount is what is mounted already, with the options above; nil mounts.
	Premount *Premount
	// Ended is called when no more requests come; nil calls nothing.
	Ended func()
}

// DefaultReadAhead is 4 MiB.
const DefaultReadAhead = 4 << 20

const (
	// maxRead is the largest READ: the most that Linux sends.
	maxRead = 1 << 20
	// fsName is the file system's name: fuse.pipefs in the table of mounts.
	fsName = "pipefs"
	// maxBackground is the number of reads ahead that may be under way.
	maxBackground = 128
)

// Mountpoint is a mounted file system.
type Mountpoint struct {
	dir  string
	fsys *FS
	conn *conn.Conn
	done chan struct{}
}

// Mount mounts f on a directory and serves it until it is unmounted. It returns when the mount answers; with a Premount,
// when it is served. What a daemon that died left behind on the directory is unmounted first.
func Mount(dir string, f *FS, o MountOptions) (*Mountpoint, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if o.Premount == nil {
		if err := checkMountDir(dir, f.log); err != nil {
			return nil, err
		}
	}
	if f.kernel.Load() != nil {
		return nil, errors.New("mount: the file system is mounted already")
	}
	f.others = o.AllowOther
	m := &Mountpoint{dir: dir, fsys: f, done: make(chan struct{})}
	var fd int
	if o.Premount != nil {
		fd = o.Premount.conn
	} else if fd, err = attach(dir, o); err != nil {
		return nil, err
	}
	if m.conn, err = conn.Start(fd, f, o.connection(f)); err != nil {
		f.kernel.Store(nil)
		err = fmt.Errorf("mount %s: %w", dir, err)
		if o.Premount == nil { // else whoever mounted it decides
			err = errors.Join(err, mounts.Unmount(dir, true))
		}
		return nil, err
	}
	f.journal.Began(m.conn.Handshake())
	stop := make(chan struct{})
	var beside sync.WaitGroup
	beside.Go(func() { f.runNotifier(m.conn, stop) })
	if f.journal.Resumes() {
		f.resend(m.conn)
		beside.Go(func() { f.lookAgain(stop) })
	}
	if f.live != nil {
		beside.Go(f.live.read)
		beside.Go(func() { f.live.run(stop) })
	}
	go func() {
		m.conn.Serve()
		f.disconnected()
		close(stop)
		if f.live != nil {
			f.live.w.Close()
		}
		beside.Wait()
		close(m.done)
	}()
	// Who mounted for this process looks itself: a thread that waits for the answer of its own
	// process cannot be killed.
	if o.Premount == nil {
		if err := m.answers(); err != nil {
			err = fmt.Errorf("mount %s: does not answer: %w", dir, err)
			if lazyErr := m.UnmountLazily(); lazyErr != nil {
				return nil, errors.Join(err, lazyErr)
			}
			m.Wait()
			return nil, err
		}
	}
	if o.ReadAhead == 0 {
		o.ReadAhead = DefaultReadAhead
	}
	raise := func(size int) error { return setReadAhead(dir, size) }
	if o.Premount != nil {
		raise = o.Premount.setReadAhead
	}
	if err := raise(o.ReadAhead); err != nil {
		f.log.Debug("read-ahead stays the kernel's default", "cause", err)
	}
	return m, nil
}

// connection is what the kernel is asked for.
func (o MountOptions) connection(f *FS) conn.Options {
	c := conn.Options{
		Fuse: fuse.MountOptions{
			MaxBackground:        maxBackground,
			IgnoreSecurityLabels: true, DisableXAttrs: true,
			// Nodes never change, and a link that moves gets another node.
			ExplicitDataCacheControl: true, EnableSymlinkCaching: true,
			// Every page of a listing can come with attributes: see bulk. The kernel's own
			// choice (CAP_READDIRPLUS_AUTO) would be the first page, before anybody can know.
		},
		Handshake: f.journal.Handshake(), Agreed: f.connected, Log: f.log, OnPanic: f.panicked, OnEnd: o.Ended, Account: f.account, Answered: f.answered,
	}
	if f.suspects != nil {
		c.Guard = f.suspects.guard
	}
	if f.mode == PageCache || f.journal != nil {
		// Nothing is passed through, and with it fewer file systems could be stacked
		// on this one: containers do. Nor is it where another daemon may follow: of what is
		// open it could not know which files the kernel reads itself.
		c.Fuse.DisabledCapabilities = fuse.CAP_PASSTHROUGH
	}
	return c
}

// pollName is a name that go-fuse answers for itself.
const pollName = ".go-fuse-epoll-hack"

// answers waits for the first answer. It also makes the kernel ask for POLL once,
// to learn that there is none: Go's own use of files of the mount in this process
// would otherwise wait for an answer on the thread that should give it.
func (m *Mountpoint) answers() error {
	fd, err := unix.Open(filepath.Join(m.dir, pollName), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	_, err = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
	if errors.Is(err, unix.EINTR) {
		err = nil
	}
	return err
}

// setReadAhead raises how much the kernel reads ahead.
func setReadAhead(dir string, size int) error {
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return err
	}
	return os.WriteFile(readAheadFile(unix.Major(st.Dev), unix.Minor(st.Dev)), []byte(strconv.Itoa(size>>10)), 0)
}

func readAheadFile(major, minor uint32) string {
	return fmt.Sprintf("/sys/class/bdi/%d:%d/read_ahead_kb", major, minor)
}

// Leave stops to serve the mount, which stays: another process goes on. It returns when
// every request that was read is answered.
func (m *Mountpoint) Leave() { m.conn.Leave() }

// UnmountLazily takes the mount out of the directory tree at once. It ends, and
// Wait returns, when the last file is closed.
func (m *Mountpoint) UnmountLazily() error {
	select {
	case <-m.done:
		return nil // somebody else unmounted it
	default:
		return mounts.Unmount(m.dir, true)
	}
}

// Wait returns when the mount has ended and the last request was answered.
func (m *Mountpoint) Wait() { <-m.done }

// Done is closed when Wait would return.
func (m *Mountpoint) Done() <-chan struct{} { return m.done }

// panicked notes a panic of a handler. The request is answered by EIO.
func (f *FS) panicked(cause any) {
	f.panics.Add(1)
	f.log.Error("panic in a request; this is a bug of pipefs", "cause", cause, "stack", string(debug.Stack()))
}
