package mounts

import (
	"bytes"
	"errors"
	"fmt"
	"os/exec"
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
