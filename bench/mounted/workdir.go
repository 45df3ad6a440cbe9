package mounted

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// workPrefix is that of directories for measurements; the process's number follows.
const workPrefix = "bench-"

// WorkDir makes a directory in parent for what is prepared for a measurement, and takes away those
// of processes that were killed.
func WorkDir(parent string) (string, error) {
	left, err := filepath.Glob(filepath.Join(parent, workPrefix+"*"))
	if err != nil {
		return "", err
	}
	for _, dir := range left {
		number, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), workPrefix), "-")
		if pid, err := strconv.Atoi(number); err == nil && errors.Is(unix.Kill(pid, 0), unix.ESRCH) {
			if err := os.RemoveAll(dir); err != nil {
				return "", err
			}
		}
	}
	return os.MkdirTemp(parent, fmt.Sprintf("%s%d-", workPrefix, os.Getpid()))
}
