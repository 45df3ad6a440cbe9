package views

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/mounts"
)

// ThisMachine describes where source is measured.
func ThisMachine(source string) (Machine, error) {
	m := Machine{Cores: runtime.NumCPU()}
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return m, fmt.Errorf("uname: %w", err)
	}
	m.Kernel = "Linux " + unix.ByteSliceToString(name.Release[:])
	m.CPU = valueOf("/proc/cpuinfo", "model name")
	if m.CPU == "" {
		m.CPU = runtime.GOARCH
	}
	if kb, err := strconv.ParseInt(strings.TrimSuffix(valueOf("/proc/meminfo", "MemTotal"), " kB"), 10, 64); err == nil {
		m.Memory = kb << 10
	}
	if strings.Contains(source, "://") {
		m.Disk = "object storage"
		return m, nil
	}
	real, err := filepath.EvalSymlinks(source)
	if err != nil {
		return m, err
	}
	at, err := mounts.Holding(real)
	if at != nil {
		m.Disk = at.FSType + " on " + at.Source
	}
	return m, err
}

// valueOf reads "key : value" from a file of /proc; empty if it is not there.
func valueOf(file, key string) string {
	b, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	for s := bufio.NewScanner(bytes.NewReader(b)); s.Scan(); {
		if k, v, ok := strings.Cut(s.Text(), ":"); ok && strings.TrimSpace(k) == key {
			return strings.TrimSpace(v)
		}
	}
	return ""
}
