package doctor

import (
	"fmt"
	"io/fs"
	"strconv"
	"strings"
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
