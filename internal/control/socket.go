package control

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/mounts"
)

// maxPath is the longest path that fits the kernel's address of a socket.
const maxPath = 107

// Socket is the path of the socket of a mount. It is made from the mount's path
// and the mount namespace, in which that path has its meaning, so that the daemon
// of the next mount at the same place takes it over: nothing piles up after
// crashes.
func Socket(mount string) (string, error) { return SocketOf(mount, os.Geteuid()) }

// SocketOf is the path of the socket of a mount whose daemon runs as a user. It makes
// directories, which root does with the rights of that user.
func SocketOf(mount string, uid int) (string, error) {
	name := socketName(mount)
	if run := os.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(run) {
		dir := filepath.Join(run, "pipefs")
		path := filepath.Join(dir, name)
		if len(Behind(path)) <= maxPath && private(dir, uid) == nil {
			return path, nil
		}
	}
	dir, err := tempDir(uid, uid)
	if err != nil {
		return "", fmt.Errorf("directory for the control socket: %w", err)
	}
	return filepath.Join(dir, name), nil
}

// Behind is the path of the socket at which the daemon of a supervised mount answers its
// parent, which answers at path.
func Behind(path string) string { return strings.TrimSuffix(path, suffix) + ".daemon" + suffix }

// RuntimeDir is this user's private directory for what lives as long as a mount:
// $XDG_RUNTIME_DIR/pipefs, or one in /tmp.
func RuntimeDir() (string, error) {
	path, err := Socket("/")
	return filepath.Dir(path), err
}

// TempDir is a private directory of this user in /tmp, and the same at every call:
// /tmp/pipefs-UID, or where that cannot be one, another; see [Avoided].
func TempDir() (string, error) { return tempDir(os.Geteuid(), os.Geteuid()) }

// tempDir is that of a user; the owner is that user, but in tests.
func tempDir(uid, owner int) (string, error) {
	// not os.TempDir: TMPDIR differs between sessions and may be long
	usual := inTmp(uid)
	if private(usual, owner) == nil {
		return usual, nil
	}
	// Anybody can take a name in /tmp, so that no name can be relied on.
	for _, dir := range othersInTmp(uid) {
		if private(dir, owner) == nil {
			return dir, nil
		}
	}
	return os.MkdirTemp(filepath.Dir(usual), filepath.Base(usual)+".*")
}

// Avoided says why path, which lies in the [TempDir], does not lie in the usual one;
// nil where it does, or lies elsewhere.
func Avoided(path string) error { return avoided(path, os.Geteuid()) }

func avoided(path string, uid int) error {
	usual := inTmp(uid)
	if !strings.HasPrefix(path, usual+".") {
		return nil
	}
	return Private(usual)
}

// othersInTmp are what may be directories of a user beside the usual one.
func othersInTmp(uid int) []string {
	found, err := filepath.Glob(inTmp(uid) + ".*")
	if err != nil { // the pattern is a constant
		return nil
	}
	return found
}

const suffix = ".sock"

func socketName(mount string) string {
	space, err := os.Readlink("/proc/self/ns/mnt")
	if err != nil {
		space = ""
	}
	sum := sha256.Sum256([]byte(space + "\x00" + mount))
	return hex.EncodeToString(sum[:8]) + suffix
}

func inTmp(uid int) string { return "/tmp/pipefs-" + strconv.Itoa(uid) }

// socketOf guesses the socket of a mount that does not let root in, which is how
// the kernel has it for mounts of users.
func socketOf(m *mounts.Mount) (string, bool) {
	uid, ok := m.Owner()
	if !ok || os.Geteuid() != 0 {
		return "", false
	}
	for _, dir := range append([]string{"/run/user/" + strconv.Itoa(uid) + "/pipefs", inTmp(uid)}, othersInTmp(uid)...) {
		path := filepath.Join(dir, socketName(m.Mountpoint))
		var st unix.Stat_t
		if unix.Lstat(path, &st) == nil && int(st.Uid) == uid && st.Mode&unix.S_IFMT == unix.S_IFSOCK {
			return path, true
		}
	}
	return "", false
}

// Private makes dir a directory of this user that nobody else may enter. In /tmp
// anybody could have put something there before.
func Private(dir string) error { return private(dir, os.Geteuid()) }

func private(dir string, uid int) error {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	st := info.Sys().(*syscall.Stat_t)
	switch {
	case !info.IsDir():
		return fmt.Errorf("%s is not a directory; remove it", dir)
	case int(st.Uid) != uid:
		return fmt.Errorf("%s belongs to user %d, not to %d; remove it", dir, st.Uid, uid)
	case info.Mode().Perm()&0o077 != 0:
		return fmt.Errorf("%s may be entered by others (mode %o); chmod 700 it", dir, info.Mode().Perm())
	}
	return nil
}

// Listener listens at a socket that only this user and root may connect to.
type Listener struct {
	path     string
	dev, ino uint64 // of the socket's file, to know it again
	listener *net.UnixListener
}

// Listen listens at path. A socket that another daemon left there, or still uses for a
// mount that was lazily unmounted, is taken over.
func Listen(path string) (*Listener, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	// Close removes it, unless it is somebody else's by then.
	listener.SetUnlinkOnClose(false)
	l := &Listener{path: path, listener: listener}
	if err := l.identify(); err != nil {
		listener.Close()
		return nil, err
	}
	return l, nil
}

func (l *Listener) identify() error {
	var st unix.Stat_t
	if err := unix.Lstat(l.path, &st); err != nil {
		return err
	}
	l.dev, l.ino = st.Dev, st.Ino
	// for those who share the directory after all, such as a bind mount of it
	return os.Chmod(l.path, 0o600)
}

// Accept waits for the next connection; failed is told of errors that pass. After Close
// it returns nil.
func (l *Listener) Accept(failed func(error)) *net.UnixConn {
	for {
		conn, err := l.listener.AcceptUnix()
		switch {
		case err == nil:
			return conn
		case errors.Is(err, net.ErrClosed):
			return nil
		}
		failed(err) // out of descriptors, most likely: not for ever
		time.Sleep(100 * time.Millisecond)
	}
}

// Close stops listening, and removes the socket.
func (l *Listener) Close() error {
	var st unix.Stat_t
	if unix.Lstat(l.path, &st) == nil && st.Dev == l.dev && st.Ino == l.ino {
		_ = os.Remove(l.path)
	}
	return l.listener.Close()
}

func denied(uid uint32, owner int) string {
	return fmt.Sprintf("user %d may not control this mount: only user %d and root may", uid, owner)
}

// Peer tells who is at the other end of a connection.
func Peer(conn *net.UnixConn) (*unix.Ucred, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	var cred *unix.Ucred
	var inner error
	if err := raw.Control(func(fd uintptr) {
		cred, inner = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return nil, err
	}
	return cred, inner
}
