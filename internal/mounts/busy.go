package mounts

import (
	"bytes"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
)

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
