package throttle

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// deviceOf is the disk that holds a file. It is not the partition: limits are for whole
// disks.
func deviceOf(path string) (string, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return "", &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	device := fmt.Sprintf("%d:%d", unix.Major(st.Dev), unix.Minor(st.Dev))
	sys := "/sys/dev/block/" + device
	if _, err := os.Stat(sys); err != nil {
		return "", fmt.Errorf("reads of %s cannot be limited, as it is on no disk of its own (device %s): %w", path, device, ErrNoCgroup)
	}
	if _, err := os.Stat(filepath.Join(sys, "partition")); err != nil {
		return device, nil
	}
	real, err := filepath.EvalSymlinks(sys)
	if err != nil {
		return "", err
	}
	b, err := os.ReadFile(filepath.Join(filepath.Dir(real), "dev"))
	return strings.TrimSpace(string(b)), err
}
