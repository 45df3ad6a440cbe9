package loader

import (
	"bufio"
	"bytes"
	"errors"
	"os"
	"strconv"
	"strings"
)

// Memory is about how many bytes the page cache can hold: what the system calls
// available, or what the cgroup of this process leaves of it.
func Memory() (int64, error) {
	b, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, err
	}
	free := int64(-1)
	for s := bufio.NewScanner(bytes.NewReader(b)); s.Scan(); {
		if f := strings.Fields(s.Text()); len(f) >= 2 && f[0] == "MemAvailable:" {
			kilobytes, err := strconv.ParseInt(f[1], 10, 64)
			if err != nil {
				return 0, err
			}
			free = kilobytes << 10
		}
	}
	if free < 0 {
		return 0, errors.New("/proc/meminfo does not say what is available")
	}
	// The limits of the group that a container sees as the root. "max" is none.
	for _, file := range []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		if b, err := os.ReadFile(file); err == nil {
			if limit, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64); err == nil && limit > 0 {
				free = min(free, limit)
			}
		}
	}
	return free, nil
}
