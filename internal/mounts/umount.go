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
