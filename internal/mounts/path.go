package mounts

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Patience is how long a path below a mount may take to answer.
const Patience = 5 * time.Second

// ErrHung marks a path that did not answer in time: its daemon is stuck, or the
// disk below it.
var ErrHung = errors.New("no answer")

// Answer runs something that touches a mount, and gives up on it after patience.
// The goroutine of one that never returns stays behind; so does, in the kernel,
// the call it makes.
func Answer[T any](path string, patience time.Duration, touch func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		value, err := touch()
		done <- result{value, err}
	}()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case r := <-done:
		return r.value, r.err
	case <-timer.C:
		var none T
		return none, &fs.PathError{Op: "access", Path: path, Err: fmt.Errorf("%w within %v", ErrHung, patience)}
	}
}

// Stat is os.Stat with patience.
func Stat(path string) (fs.FileInfo, error) {
	return Answer(path, Patience, func() (fs.FileInfo, error) { return os.Stat(path) })
}

// Probe asks the file system at path itself whether it answers. Stat may be
// answered from what the kernel has cached, long after the daemon of a mount is
// gone; statfs never is.
func Probe(path string) error {
	_, err := Answer(path, Patience, func() (struct{}, error) {
		var st unix.Statfs_t
		if err := unix.Statfs(path, &st); err != nil {
			return struct{}{}, &fs.PathError{Op: "statfs", Path: path, Err: err}
		}
		return struct{}{}, nil
	})
	return err
}

// Dead reports whether err is what a mount without its daemon answers, or one whose
// daemon died over the question.
func Dead(err error) bool {
	return errors.Is(err, unix.ENOTCONN) || errors.Is(err, unix.ECONNABORTED)
}

// Hung reports whether err is that of a path that did not answer in time.
func Hung(err error) bool { return errors.Is(err, ErrHung) }

// Resolve makes a path absolute and follows all links, as the kernel did before
// it entered the path in the table. The path need not exist, and it may be a
// mount that is dead or that keeps others out, which filepath.EvalSymlinks
// refuses.
func Resolve(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	for range 40 { // as many links as the kernel follows
		dir, err := filepath.EvalSymlinks(filepath.Dir(abs))
		if err != nil {
			return "", err
		}
		abs = filepath.Join(dir, filepath.Base(abs))
		target, err := os.Readlink(abs)
		if err != nil { // no link, or nothing that answers: this is the place
			return abs, nil
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(dir, target)
		}
		abs = target
	}
	return "", &fs.PathError{Op: "resolve", Path: path, Err: unix.ELOOP}
}

// Inside reports whether path is dir or lies below it, by what the directories
// are and not by what they are called: bind mounts give one directory several
// names.
func Inside(path, dir string) bool {
	top, err := Stat(dir)
	if err != nil {
		return false
	}
	for {
		if at, err := Stat(path); err == nil && os.SameFile(at, top) {
			return true
		}
		up := filepath.Dir(path)
		if up == path {
			return false
		}
		path = up
	}
}

// Process is one that keeps a mount busy.
type Process struct {
	PID  int
	Name string // of its program
	Uses string // a path, and how it is used
}

// Users finds at most limit processes that have files below dir open or mapped, or
// stand in it. Only those of the same user are visible to a user without
// privileges.
func Users(dir string, limit int) []Process {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var found []Process
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if uses := use(filepath.Join("/proc", e.Name()), dir); uses != "" {
			name, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "comm"))
			found = append(found, Process{PID: pid, Name: strings.TrimSpace(string(name)), Uses: uses})
		}
	}
	sort.Slice(found, func(i, j int) bool { return found[i].PID < found[j].PID })
	return found[:min(limit, len(found))]
}

// use says how the process at proc, a directory of /proc, uses dir. Only links
// are read, never the mount itself.
func use(proc, dir string) string {
	for _, what := range []struct{ link, how string }{
		{"cwd", "works in "}, {"root", "has its root in "}, {"exe", "runs "},
	} {
		if target, err := os.Readlink(filepath.Join(proc, what.link)); err == nil && Below(target, dir) {
			return what.how + target
		}
	}
	fds := filepath.Join(proc, "fd")
	if entries, err := os.ReadDir(fds); err == nil {
		for _, e := range entries {
			if target, err := os.Readlink(filepath.Join(fds, e.Name())); err == nil && Below(target, dir) {
				return "has open " + target
			}
		}
	}
	// loaders map a file and close it: it is then in no list of descriptors
	maps, err := os.ReadFile(filepath.Join(proc, "maps"))
	if err != nil || !bytes.Contains(maps, []byte(dir)) {
		return ""
	}
	for line := range strings.Lines(string(maps)) {
		if i := strings.IndexByte(line, '/'); i >= 0 {
			if target := strings.TrimSpace(line[i:]); Below(target, dir) {
				return "has mapped " + target
			}
		}
	}
	return ""
}
