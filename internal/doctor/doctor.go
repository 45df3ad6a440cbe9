// Package doctor looks at everything on a machine that decides whether pipefs works well
// there, and says what to do about it.
//
// # Nouns
//
// A [Machine] is what is looked at: files below a root, and functions for what files do not
// tell. Tests give it the files and answers of other machines. A [Finding] is one thing that
// was looked at, with a [Mark]: it is well, or costs something, or keeps something from
// working. What keeps every mount from being made is fatal.
package doctor

import (
	"context"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/cachedir"
	"github.com/pipefs/pipefs/internal/cgroup"
	"github.com/pipefs/pipefs/internal/control"
	"github.com/pipefs/pipefs/internal/mountd"
	"github.com/pipefs/pipefs/internal/mounts"
	"github.com/pipefs/pipefs/internal/source"
	"github.com/pipefs/pipefs/l3gpu"
	"github.com/pipefs/pipefs/transcode/jpeg"
)

// Mark is how a finding is to be taken.
type Mark string

// The marks.
const (
	OK      Mark = "ok"
	Note    Mark = "note"    // something is lost, or may be
	Problem Mark = "problem" // something does not work
)

// Finding is what was seen of one thing.
type Finding struct {
	About string `json:"about"`
	Mark  Mark   `json:"mark"`
	Says  string `json:"says"`
	Do    string `json:"do,omitempty"` // what the user can do about it
	// Fatal is why nothing can be mounted; nil where this finding does not keep it.
	Fatal error `json:"-"`
}

func ok(about, format string, args ...any) Finding {
	return Finding{About: about, Mark: OK, Says: fmt.Sprintf(format, args...)}
}

func note(about, do, format string, args ...any) Finding {
	return Finding{About: about, Mark: Note, Says: fmt.Sprintf(format, args...), Do: do}
}

func problem(about, do, format string, args ...any) Finding {
	return Finding{About: about, Mark: Problem, Says: fmt.Sprintf(format, args...), Do: do}
}

func fatal(about string, err error, do string) Finding {
	return Finding{About: about, Mark: Problem, Says: err.Error(), Do: do, Fatal: err}
}

// Machine is what is looked at.
type Machine struct {
	// Root stands before /proc, /sys, /etc and /dev; empty for this machine.
	Root   string
	Getenv func(name string) string
	UID    int
	User   string
	Mounts []*mounts.Mount
	// Groups are the control groups of this process.
	Groups cgroup.System

	// FUSE says why this process cannot mount, and what to do; Fusermount what mounts for a
	// user.
	FUSE       func() error
	Fusermount func() (path string, err error)
	// Inotify says why nothing can be watched.
	Inotify    func() error
	FileSystem func(path string) (mounts.FileSystem, error)
	Free       func(path string) (int64, error)
	// Probe asks a mount whether it answers.
	Probe func(path string) error
	// Cache is where mounts keep what they prepare, and how many bytes they may keep;
	// Sockets is a control socket, and why it does not lie where it usually does.
	Cache   func() (dir string, limit int64, err error)
	Sockets func() (path string, avoided, err error)
	// Vectorised: pipefs has assembly that decodes JPEG files on this processor.
	Vectorised bool
	// GPU describes the first one.
	GPU func() (string, error)
	// Dataset is looked at as well; empty for none. Watch says why its changes cannot be
	// watched.
	Dataset string
	Watch   func(dataset string) error
	// Trial mounts something small, reads it and unmounts it.
	Trial func(ctx context.Context) error
}

// Here is this machine. Program is pipefs, for the trial; dataset may be empty.
func Here(program, dataset string) (*Machine, error) {
	groups, err := cgroup.Here()
	if err != nil {
		return nil, err
	}
	m := &Machine{
		Getenv: os.Getenv, UID: os.Geteuid(), User: strconv.Itoa(os.Geteuid()), Mounts: groups.Mounts, Groups: groups,
		FUSE:       func() error { return mounts.CheckFUSE("") },
		Fusermount: mounts.Fusermount, Inotify: inotify,
		FileSystem: fileSystem, Free: cachedir.Free, Probe: mounts.Probe,
		Cache: cache, Sockets: sockets,
		Vectorised: jpeg.Vectorised,
		GPU:        func() (string, error) { return l3gpu.Found(0) }, Dataset: dataset, Watch: watch,
		Trial: func(ctx context.Context) error { return trial(ctx, program) },
	}
	if u, err := user.Current(); err == nil {
		m.User = u.Username
	}
	return m, nil
}

// Look looks at everything.
func (m *Machine) Look(ctx context.Context) []Finding {
	var all []Finding
	for _, look := range []func() []Finding{
		m.kernel, m.fuse, m.others, m.mountMax,
		m.processors, m.memory, m.slurm, m.openFiles, m.cache, m.sockets,
		m.jpeg, m.gpu, m.deadMounts,
	} {
		all = append(all, look()...)
	}
	all = append(all, m.trial(ctx, Fatal(all) != nil))
	return slices.Concat(all, m.dataset(), m.inotify())
}

// Fatal is why nothing can be mounted, as far as was found; nil where something can.
func Fatal(all []Finding) error {
	for _, f := range all {
		if f.Fatal != nil {
			return f.Fatal
		}
	}
	return nil
}

// text reads a small file; empty where there is none.
func (m *Machine) text(path string) string {
	b, err := os.ReadFile(filepath.Join(m.Root, path))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// number reads a file that holds one.
func (m *Machine) number(path string) (int64, bool) {
	n, err := strconv.ParseInt(m.text(path), 10, 64)
	return n, err == nil
}

// field is the value of "NAME: VALUE" in a file.
func (m *Machine) field(path, name string) string {
	for line := range strings.Lines(m.text(path)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// exists reports whether there is a file.
func (m *Machine) exists(path string) bool {
	_, err := os.Lstat(filepath.Join(m.Root, path))
	return err == nil
}

// size writes bytes for people.
func size(n int64) string {
	if n < 1e9 {
		return fmt.Sprintf("%d MB", n/1e6)
	}
	return fmt.Sprintf("%.3g GB", float64(n)/1e9)
}

// The answers of this machine.

func inotify() error {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	if err != nil {
		return os.NewSyscallError("inotify_init1", err)
	}
	return unix.Close(fd)
}

func fileSystem(path string) (mounts.FileSystem, error) {
	f, err := os.Open(path)
	if err != nil {
		return mounts.FileSystem{}, err
	}
	defer f.Close()
	return mounts.FileSystemOf(int(f.Fd()))
}

func cache() (string, int64, error) {
	root, err := mountd.CacheRoot()
	if err != nil {
		return "", 0, err
	}
	limit, _, err := root.Limit()
	return root.Dir(), limit, err
}

func sockets() (path string, avoided, err error) {
	if path, err = control.Socket("/"); err != nil {
		return "", nil, err
	}
	return path, control.Avoided(path), nil
}

func watch(dataset string) error {
	d, err := source.Open(dataset, source.Options{})
	if err != nil {
		return err
	}
	defer d.Close()
	w, err := d.Watch()
	if err == nil {
		w.Close()
	}
	return err
}
