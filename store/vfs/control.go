package vfs

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Control calls f with the descriptor of a file. The descriptor is that of this file until f returns, also if
// another goroutine closes the file meanwhile. One that [os.File.Fd] returned may be another file's by then.
func Control(file *os.File, f func(fd int) error) error {
	raw, err := file.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) { failed = f(int(fd)) })
	return errors.Join(err, failed)
}

// Flock locks or unlocks a file, see flock(2).
func Flock(file *os.File, how int) error {
	return Control(file, func(fd int) error {
		for {
			if err := unix.Flock(fd, how); !errors.Is(err, unix.EINTR) {
				return err
			}
		}
	})
}
