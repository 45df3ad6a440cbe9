package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/pipefs/pipefs/internal/cachedir"
	"github.com/pipefs/pipefs/internal/mounts"
	"github.com/pipefs/pipefs/internal/source"
)

// release is a version of Linux.
type release struct{ major, minor int }

func (r release) String() string { return fmt.Sprintf("%d.%d", r.major, r.minor) }

func (r release) before(o release) bool {
	return r.major < o.major || r.major == o.major && r.minor < o.minor
}

// Since when Linux has what pipefs uses.
var (
	oldest      = release{5, 6}
	passthrough = release{6, 9}
	hugePages   = release{6, 14}
)

func (m *Machine) kernel() []Finding {
	const about = "kernel"
	const file = "/proc/sys/kernel/osrelease"
	text := m.text(file)
	var r release
	if _, err := fmt.Sscanf(text, "%d.%d", &r.major, &r.minor); err != nil {
		return []Finding{note(about, "", "%s does not tell the version (%q)", file, text)}
	}
	newer := func(what release) string { return fmt.Sprintf("boot Linux %v or newer", what) }
	switch {
	case r.before(oldest):
		return []Finding{problem(about, newer(oldest), "Linux %s: pipefs is made for %v and newer, and may not mount here", text, oldest)}
	case r.before(passthrough):
		return []Finding{note(about, newer(passthrough)+"; --cache page, which is the default, loses nothing",
			"Linux %s: with --cache daemon every read goes through the daemon, because the kernel has no passthrough (%v), nor huge pages for it (%v)", text, passthrough, hugePages)}
	case r.before(hugePages):
		return []Finding{ok(about, "Linux %s has everything but huge pages for --cache daemon (%v)", text, hugePages)}
	}
	return []Finding{ok(about, "Linux %s has everything that pipefs uses", text)}
}

// fuse looks at what mounting takes.
func (m *Machine) fuse() []Finding {
	const about = "mounting"
	if err := m.FUSE(); err != nil {
		return []Finding{fatal(about, err, "")} // it says what to do
	}
	if m.UID == 0 {
		return []Finding{ok(about, "/dev/fuse is there, and root may mount")}
	}
	path, err := m.Fusermount()
	if err != nil { // CheckFUSE did not need it: this user may mount without
		return []Finding{ok(about, "/dev/fuse is there, and user %s may mount without fusermount3", m.User)}
	}
	return []Finding{ok(about, "/dev/fuse is there, and %s mounts for user %s", path, m.User)}
}

const fuseConf = "/etc/fuse.conf"

// setting is a line of fuse.conf: the word itself, or what follows its =.
func (m *Machine) setting(name string) (value string, found bool) {
	for line := range strings.Lines(m.text(fuseConf)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		if strings.TrimSpace(key) == name {
			return strings.TrimSpace(value), true
		}
	}
	return "", false
}

// others says whether other users can be let in.
func (m *Machine) others() []Finding {
	const about = "other users"
	if m.UID == 0 {
		return []Finding{ok(about, "root may let other users in (--allow-other)")}
	}
	if _, allowed := m.setting("user_allow_other"); allowed {
		return []Finding{ok(about, "%s permits to let other users in (--allow-other)", fuseConf)}
	}
	return []Finding{ok(about, "only user %s can read what user %[1]s mounts; --allow-other needs the line user_allow_other in %s", m.User, fuseConf)}
}

// mountMax compares the limit of fusermount3 with what there is.
func (m *Machine) mountMax() []Finding {
	const about = "mounts"
	const usual = 1000 // without a line
	const close = 10
	if m.UID == 0 {
		return nil
	}
	most := usual
	if text, found := m.setting("mount_max"); found {
		n, err := strconv.Atoi(text)
		if err != nil {
			return []Finding{note(about, "", "%s: mount_max = %q is no number", fuseConf, text)}
		}
		most = n
	}
	there := 0
	for _, mount := range m.Mounts {
		if mount.FSType == "fuse" || strings.HasPrefix(mount.FSType, "fuse.") {
			there++
		}
	}
	do := fmt.Sprintf("unmount what is not needed (pipefs mounts lists those of pipefs), or have mount_max = %d written into %s", 2*most, fuseConf)
	switch {
	case most < 0: // no limit
	case there >= most:
		return []Finding{{About: about, Mark: Problem, Do: do, Says: fmt.Sprintf("there are %d FUSE mounts, and users may have no more (mount_max)", there),
			Fatal: fmt.Errorf("there are as many FUSE mounts as users may have (mount_max): %w", fs.ErrPermission)}}
	case there+close > most:
		return []Finding{note(about, do, "there are %d FUSE mounts, and users may have %d (mount_max)", there, most)}
	}
	return nil
}

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
	elsewhere := "keep it on a local disk with space: set XDG_CACHE_HOME, or pipefs mount --create-store --store DIR"
	if strings.HasPrefix(dir, "/tmp/pipefs-") {
		return []Finding{note(about, elsewhere, "the home directory cannot be written to: what mounts prepare is kept in %s, until /tmp is emptied", dir)}
	}
	if why := m.poorCache(dir); why != "" {
		return []Finding{note(about, elsewhere, "%s", why)}
	}
	if limit == 0 {
		return []Finding{note(about, "pipefs cache limit default", "the limit is 0: mounts keep nothing of what they prepare")}
	}
	return []Finding{ok(about, "mounts keep up to %s in %s (pipefs cache limit)", size(limit), dir)}
}

// poorCache says why a directory is a bad one to keep things in; "" is that it is none.
func (m *Machine) poorCache(dir string) string {
	if kind, err := m.FileSystem(dir); err == nil && !kind.Local {
		return fmt.Sprintf("%s is on no local disk (%s): what is kept there may be slower to read than to make again", dir, kind.Name)
	}
	if free, err := m.Free(dir); err == nil && free < littleRoom {
		return fmt.Sprintf("%s has %s free: little of what mounts prepare can be kept", dir, size(free))
	}
	return ""
}

// PoorCache says why a directory of this machine is a bad one to keep things in; "" is that it is none.
func PoorCache(dir string) string {
	m := &Machine{FileSystem: fileSystem, Free: cachedir.Free}
	return m.poorCache(dir)
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
