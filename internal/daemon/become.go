package daemon

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// User is whom a daemon becomes that gives up root.
type User struct {
	Name     string // for messages
	UID, GID int
	Groups   []int
	Home     string // empty if there is none
}

// LookupUser finds a user by name or number.
func LookupUser(name string) (*User, error) {
	found, err := user.Lookup(name)
	if number, bad := strconv.Atoi(name); err != nil && bad == nil {
		found, err = user.LookupId(strconv.Itoa(number))
	}
	if err != nil {
		return nil, fmt.Errorf("there is no user %s", name)
	}
	u := &User{Name: found.Username, Home: found.HomeDir}
	ids, err := found.GroupIds()
	if err != nil {
		return nil, fmt.Errorf("the groups of user %s: %w", name, err)
	}
	for _, id := range ids {
		gid, err := strconv.Atoi(id)
		if err != nil {
			return nil, fmt.Errorf("the groups of user %s: %w", name, err)
		}
		u.Groups = append(u.Groups, gid)
	}
	u.UID, err = strconv.Atoi(found.Uid)
	if err == nil {
		u.GID, err = strconv.Atoi(found.Gid)
	}
	return u, err
}

// Become runs this program again in this process, as another user and with other
// arguments, the program's name first. Descriptors that are not closed on exec, and the
// parent that waits, are handed on. It returns only if that failed; then the process is
// to end, since one of its threads may have changed its user.
func Become(u *User, args, env []string, parent *Parent) error {
	waits, err := parent.hand()
	if err != nil {
		return err
	}
	env = append(env, waits...)
	for _, entry := range os.Environ() {
		if !strings.HasPrefix(entry, "HOME=") {
			env = append(env, entry)
		}
	}
	env = append(env, "HOME="+u.Home)
	// Go cannot change the user of all threads where C libraries are loaded. It is
	// enough to change that of this one: exec makes it the only one.
	runtime.LockOSThread()
	groups := make([]uint32, len(u.Groups))
	for i, g := range u.Groups {
		groups[i] = uint32(g)
	}
	gid, uid := uintptr(u.GID), uintptr(u.UID)
	_, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(groups)), uintptr(unsafe.Pointer(unsafe.SliceData(groups))), 0)
	if errno == 0 {
		_, _, errno = unix.RawSyscall(unix.SYS_SETRESGID, gid, gid, gid)
	}
	if errno == 0 {
		_, _, errno = unix.RawSyscall(unix.SYS_SETRESUID, uid, uid, uid)
	}
	if errno != 0 {
		return fmt.Errorf("becoming user %s: %w", u.Name, errno)
	}
	err = syscall.Exec("/proc/self/exe", args, env)
	if errors.Is(err, unix.EACCES) {
		return fmt.Errorf("user %s may not run this program, %s", u.Name, args[0])
	}
	return fmt.Errorf("running this program as user %s: %w", u.Name, err)
}

// hand lets the program speak to the parent that this process is about to become, and
// returns what that one's environment needs.
func (p *Parent) hand() ([]string, error) {
	if p == nil {
		return nil, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	fd := p.pipe.Fd()
	if _, err := unix.FcntlInt(fd, unix.F_SETFD, 0); err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	return []string{fmt.Sprintf("%s=%d", environment, fd)}, nil
}
