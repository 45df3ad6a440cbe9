package mounts

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

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
