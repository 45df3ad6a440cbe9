package loader

import (
	"bufio"
	"bytes"
	"errors"
	"os"
	"strconv"
	"strings"

	"github.com/pipefs/pipefs/internal/cgroup"
)

// Memory is about how many bytes the page cache can hold: what the system calls
// available, or what the cgroups of this process allow.
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
	if s, err := cgroup.Here(); err == nil {
		if limit, ok := s.MemoryLimit(); ok {
			free = min(free, limit)
		}
	}
	return free, nil
}
