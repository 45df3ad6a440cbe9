package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/pipefs/pipefs/internal/mounts"
	"github.com/pipefs/pipefs/internal/source"
)

// dataset looks at the directory that is to be mounted.
func (m *Machine) dataset() []Finding {
	const about = "dataset"
	if m.Dataset == "" {
		return nil
	}
	info, err := os.Stat(m.Dataset)
	switch {
	case mounts.Dead(err):
		return []Finding{fatal(about, err, "it lies in a mount whose daemon is gone: unmount that (pipefs umount, or umount -l), and mount it again")}
	case errors.Is(err, fs.ErrNotExist):
		return []Finding{fatal(about, fmt.Errorf("%s: %w", m.Dataset, fs.ErrNotExist), "name a directory of images, or a store of pipefs pack")}
	case err != nil:
		return []Finding{fatal(about, err, "user "+m.User+" has to be able to enter it")}
	case !info.IsDir() && !source.Mountable(m.Dataset):
		return []Finding{fatal(about, source.NotDirectory(m.Dataset), "a dataset is a directory of images, and a store is one as well")}
	}
	kind, err := m.FileSystem(m.Dataset)
	if err != nil {
		return []Finding{fatal(about, err, "it has to be readable for user "+m.User)}
	}
	if !kind.Local {
		return []Finding{note(about, "if it does not change while it is mounted: pipefs mount --immutable. If it is read more than once: pipefs pack it onto a local disk, or read fewer bytes (scan5)",
			"%s lies on a file system that is not local (%s): what changes there is seen when files are opened, which costs requests", m.Dataset, kind.Name)}
	}
	return []Finding{ok(about, "%s lies on a local file system (%s)", m.Dataset, kind.Name)}
}

// inotify says whether changes of a dataset can be watched.
func (m *Machine) inotify() []Finding {
	const about = "watching"
	lost := "changes in a dataset are seen when files are opened, which costs requests"
	if err := m.Inotify(); err != nil {
		now, _ := m.number("/proc/sys/fs/inotify/max_user_instances")
		return []Finding{note(about, fmt.Sprintf("sysctl fs.inotify.max_user_instances=%d, or end programs that watch files", max(512, 2*now)), "user %s has no inotify instance left of %d (%v): %s", m.User, now, err, lost)}
	}
	watches, known := m.number("/proc/sys/fs/inotify/max_user_watches")
	if !known {
		return []Finding{note(about, "pipefs mount --immutable, if the dataset does not change while it is mounted", "this kernel has no inotify: %s", lost)}
	}
	if m.Dataset != "" && source.Mountable(m.Dataset) {
		return []Finding{ok(about, "an archive is scanned when it is mounted, and by pipefs refresh")}
	}
	if kind, err := m.FileSystem(m.Dataset); m.Dataset != "" && err == nil && kind.Local {
		if err := m.Watch(m.Dataset); err != nil {
			return []Finding{note(about, fmt.Sprintf("sysctl fs.inotify.max_user_watches=%d, or pipefs mount --immutable if it does not change while it is mounted", 4*watches), "%s: %v; %s", m.Dataset, err, lost)}
		}
		return []Finding{ok(about, "changes in %s are seen within milliseconds", m.Dataset)}
	}
	return []Finding{ok(about, "one mount watches up to %d directories of local file systems (half of fs.inotify.max_user_watches)", watches/2)}
}

// littleRoom is where keeping hardly pays: a tenth of it is used.
const littleRoom = 1e9 // bytes

// cache looks at where mounts keep what they prepare.
func (m *Machine) cache() []Finding {
	const about = "cache"
	dir, limit, err := m.Cache()
	if err != nil {
		return []Finding{note(about, "make it writable, or set XDG_CACHE_HOME to a directory on a local disk", "%v: mounts keep nothing of what they prepare, and make it again", err)}
	}
	elsewhere := "keep it on a local disk with room: set XDG_CACHE_HOME, or pipefs mount --create-store --store DIR"
	if strings.HasPrefix(dir, "/tmp/pipefs-") {
		return []Finding{note(about, elsewhere, "the home directory cannot be written to: what mounts prepare is kept in %s, until /tmp is emptied", dir)}
	}
	if kind, err := m.FileSystem(dir); err == nil && !kind.Local {
		return []Finding{note(about, elsewhere, "%s is on no local disk (%s): what is kept there may be slower to read than to make again", dir, kind.Name)}
	}
	if free, err := m.Free(dir); err == nil && free < littleRoom {
		return []Finding{note(about, elsewhere, "%s has %s free: little of what mounts prepare can be kept", dir, size(free))}
	}
	if limit == 0 {
		return []Finding{note(about, "pipefs cache limit default", "the limit is 0: mounts keep nothing of what they prepare")}
	}
	return []Finding{ok(about, "mounts keep up to %s in %s (pipefs cache limit)", size(limit), dir)}
}

// sockets looks at where daemons are asked.
func (m *Machine) sockets() []Finding {
	const about = "sockets"
	path, avoided, err := m.Sockets()
	dir, run := filepath.Dir(path), m.Getenv("XDG_RUNTIME_DIR")
	switch {
	case err != nil:
		return []Finding{fatal(about, err, "make /tmp writable for user "+m.User+", or set XDG_RUNTIME_DIR to a directory of this user that nobody else may enter")}
	case avoided != nil:
		return []Finding{note(about, "", "%v; until then %s is used", avoided, dir)}
	case filepath.IsAbs(run) && !mounts.Below(dir, run):
		return []Finding{note(about, "log in by a session that makes it, or unset XDG_RUNTIME_DIR; a shell with another setting finds the mounts all the same", "XDG_RUNTIME_DIR=%s cannot be used, because it is missing, too long, or may be entered by others: %s is used", run, dir)}
	}
	return []Finding{ok(about, "daemons are asked by sockets in %s", dir)}
}

// deadMounts finds mounts whose daemons are gone or do not answer.
func (m *Machine) deadMounts() []Finding {
	const about = "dead mounts"
	var found []Finding
	for _, mount := range m.Mounts {
		uid, known := mount.Owner()
		if !mount.Ours() || m.UID != 0 && known && uid != m.UID {
			continue
		}
		err := m.Probe(mount.Mountpoint)
		switch {
		case mounts.Dead(err):
			found = append(found, note(about, "pipefs umount "+mount.Mountpoint+", or mount there again", "the daemon of %s is gone", mount.Mountpoint))
		case mounts.Hung(err):
			found = append(found, note(about, "look at its dataset's disk and at its log; to give it up: pipefs umount --lazy "+mount.Mountpoint, "the daemon of %s does not answer", mount.Mountpoint))
		}
	}
	if found == nil {
		found = []Finding{ok(about, "none")}
	}
	return found
}
