package mounts

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrBusy marks a mount that is in use: files are open, or a process stands in one of its
// directories.
var ErrBusy = errors.New("the mount is busy")

// ErrRefused marks an unmount that the user may not do.
var ErrRefused = errors.New("refused")

// Unmount takes away what is mounted at point. A lazy unmount takes the name away
// at once and the rest when the last open file is closed; a dead mount has to be
// unmounted lazily. Users without privileges need fusermount3, which unmounts for
// a user what that user mounted.
func Unmount(point string, lazy bool) error {
	flags := unix.UMOUNT_NOFOLLOW
	if lazy {
		flags |= unix.MNT_DETACH
	}
	err := unix.Unmount(point, flags)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.EBUSY):
		return fmt.Errorf("%s: %w", point, ErrBusy)
	case !errors.Is(err, unix.EPERM) && !errors.Is(err, unix.EACCES):
		return fmt.Errorf("unmounting %s: %w", point, err)
	}
	return fusermount(point, lazy)
}

func fusermount(point string, lazy bool) error {
	tool, err := Fusermount()
	if err != nil {
		return err
	}
	args := []string{"-u", "--", point}
	if lazy {
		args = []string{"-u", "-z", "--", point}
	}
	var said bytes.Buffer
	cmd := exec.Command(tool, args...)
	cmd.Stdout, cmd.Stderr = &said, &said
	// its messages are told apart below
	cmd.Env = append(cmd.Environ(), "LC_ALL=C")
	if err := cmd.Run(); err != nil {
		text := strings.TrimSpace(said.String())
		switch {
		case strings.Contains(text, "busy"):
			return fmt.Errorf("%s: %w", point, ErrBusy)
		case text == "":
			text = err.Error()
		}
		return fmt.Errorf("unmounting %s: %w: %s", point, ErrRefused, text)
	}
	return nil
}

// Place is a mount that somebody made and means to take away again. Its path alone
// does not say enough: it may have been unmounted meanwhile, and another one be
// mounted there.
type Place struct{ point, dev string }

// PlaceOf finds the mount at point.
func PlaceOf(point string) (Place, error) {
	m, err := At(point)
	switch {
	case err != nil:
		return Place{}, err
	case m == nil:
		return Place{}, fmt.Errorf("%s is not mounted", point)
	}
	return m.place(), nil
}

func (m *Mount) place() Place { return Place{point: m.Mountpoint, dev: m.dev()} }

// Unmount takes the mount away if it still is what is mounted there.
func (p Place) Unmount(lazy bool) error {
	now, err := PlaceOf(p.point)
	if err != nil || now != p {
		return nil // it is gone already
	}
	return Unmount(p.point, lazy)
}

func namespaceOf(process string) (string, error) {
	return os.Readlink(filepath.Join("/proc", process, "ns/mnt"))
}

// Seen reports whether anybody else can see the mount: a process in this mount
// namespace or in one that has a copy of the mount, or somebody who keeps this
// namespace for later, as nsenter --mount=FILE does. Who may not look at all processes
// is told yes. But for this process, those of the mount itself do not count.
func (p Place) Seen(but ...int) bool {
	own, err := namespaceOf("self")
	if err != nil || !capable(unix.CAP_SYS_PTRACE) {
		return true
	}
	if first, _ := namespaceOf("1"); first == own {
		return true // nearly always
	}
	processes, err := os.ReadDir("/proc")
	if err != nil {
		return true
	}
	looked := map[string]bool{}
	for _, e := range processes {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() || slices.Contains(but, pid) {
			continue
		}
		space, err := namespaceOf(e.Name())
		if err != nil || looked[space] {
			continue // it ended, or it lives in a container around this one
		}
		looked[space] = true
		if space == own || p.seenBy(filepath.Join("/proc", e.Name()), own) {
			return true
		}
	}
	return false
}

// seenBy reports whether the table of mounts of a process, a directory of /proc, holds the
// mount or keeps the namespace own.
func (p Place) seenBy(proc, own string) bool {
	table, err := read(proc)
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission)
	}
	for _, line := range table {
		if m := (*Mount)(line); m.Ours() && m.dev() == p.dev || m.FSType == "nsfs" && m.Root == own {
			return true
		}
	}
	return false
}

// connections is where the kernel shows the connections of FUSE mounts to their daemons.
const connections = "/sys/fs/fuse/connections"

// Abort ends the connection of a FUSE mount: all requests that wait, and all later ones, get
// an error. It works after a lazy unmount, too. A nil Abort does nothing.
type Abort struct{ file *os.File }

// Abort opens the file by which the kernel ends the connection of the mount. Root can open
// it where the file system fusectl is not mounted, too.
func (p Place) Abort() (*Abort, error) {
	_, minor, _ := strings.Cut(p.dev, ":")
	name := minor + "/abort"
	f, err := os.OpenFile(connections+"/"+name, os.O_WRONLY, 0)
	if err != nil {
		var rootErr error
		if f, rootErr = openFusectl(name); rootErr != nil {
			return nil, fmt.Errorf("%w; root allows it: mount -t fusectl none %s", err, connections)
		}
	}
	return &Abort{f}, nil
}

// openFusectl opens a file of fusectl, which it mounts nowhere.
func openFusectl(name string) (*os.File, error) {
	ctl, err := unix.Fsopen("fusectl", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return nil, err
	}
	defer unix.Close(ctl)
	if err := unix.FsconfigCreate(ctl); err != nil {
		return nil, err
	}
	root, err := unix.Fsmount(ctl, unix.FSMOUNT_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(root)
	fd, err := unix.Openat(root, name, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

// orphaned reports whether each process that holds the connection of the mount has been killed,
// and a thread of one waits in the kernel for an answer that nobody is going to give: such a
// mount hangs until its connection is ended. It is false where this process may not look, and
// on kernels that do not tell which connection a process holds (Linux 6.10 does).
func (p Place) orphaned() bool {
	_, minor, _ := strings.Cut(p.dev, ":")
	found := false
	infos, err := filepath.Glob("/proc/[0-9]*/task/[0-9]*/fdinfo")
	if err != nil {
		return false
	}
	for _, dir := range infos {
		if !holds(dir, "fuse_connection:\t"+minor+"\n") {
			continue
		}
		pid, err := strconv.Atoi(strings.Split(dir, "/")[2])
		if err != nil || !Ended(pid) {
			return false
		}
		found = true
	}
	return found
}

// holds reports whether a line stands in what the kernel says of a descriptor of a thread.
func holds(fdinfo, line string) bool {
	entries, err := os.ReadDir(fdinfo)
	if err != nil {
		return false
	}
	for _, e := range entries {
		text, _ := os.ReadFile(filepath.Join(fdinfo, e.Name()))
		if bytes.Contains(text, []byte(line)) {
			return true
		}
	}
	return false
}

// Dead reports whether the daemon of the mount is gone, which [Probe] or [Stat] answered with
// that error.
func (p Place) Dead(err error) bool { return Dead(err) || Hung(err) && p.orphaned() }

// Clear takes the mount away at once: whatever waits for it gets an error.
func (p Place) Clear() error {
	_, err := p.clear(func() bool { return true })
	return err
}

// ClearDead is Clear of a mount whose daemon is gone. It reports false where that is not so, or
// not any more: another one may have been mounted since it was looked at.
func (p Place) ClearDead() (bool, error) {
	return p.clear(func() bool { return p.Dead(Probe(p.point)) })
}

func (p Place) clear(sure func() bool) (bool, error) {
	abort, err := p.Abort() // the connection's, whichever gets its number from now on
	if err == nil {
		defer abort.Close()
	}
	if !sure() {
		return false, nil
	}
	if err == nil {
		err = abort.End()
	}
	if err != nil && !Dead(Probe(p.point)) {
		return false, err
	}
	return true, p.Unmount(true)
}

// End ends the connection. One that has ended is no error.
func (a *Abort) End() error {
	if a == nil {
		return nil
	}
	if _, err := a.file.WriteString("1"); err != nil && !errors.Is(err, unix.ENODEV) && !errors.Is(err, unix.ENOTCONN) {
		return fmt.Errorf("ending the connection of the mount: %w", err)
	}
	return nil
}

// Close closes the file.
func (a *Abort) Close() error {
	if a == nil {
		return nil
	}
	return a.file.Close()
}
