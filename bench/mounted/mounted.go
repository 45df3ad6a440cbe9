// Package mounted runs `pipefs mount` for measurements: as a process of its own, so
// that the daemon's CPU seconds can be told from the loader's, and gone when the
// measurement ends, however it ends.
package mounted

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// Mount is a mount for the length of a measurement.
type Mount struct {
	// Dir is where it is mounted.
	Dir string
	// PID of the daemon.
	PID int

	program string
	parent  string // of Dir, to be removed
	log     string
}

// Open mounts a dataset or store in a temporary directory. Program is the path of
// pipefs. What a mount prepares is not kept: options should say so where that
// matters.
func Open(ctx context.Context, program, source string, options ...string) (_ *Mount, err error) {
	parent, err := os.MkdirTemp("", "pipefs-bench-")
	if err != nil {
		return nil, err
	}
	m := &Mount{Dir: filepath.Join(parent, "mnt"), parent: parent, program: program, log: filepath.Join(parent, "log")}
	defer func() {
		if err != nil {
			err = errors.Join(err, m.Close())
		}
	}()
	if err := os.Mkdir(m.Dir, 0o755); err != nil {
		return nil, err
	}
	args := append([]string{"mount", "--log-file", m.log, source, m.Dir}, options...)
	if _, err := m.run(ctx, args...); err != nil {
		return nil, err
	}
	out, err := m.run(ctx, "stats", "--json", m.Dir)
	if err != nil {
		return nil, err
	}
	var stats struct {
		PID int `json:"pid"`
	}
	if err := json.Unmarshal(out, &stats); err != nil {
		return nil, fmt.Errorf("pipefs stats: %w", err)
	}
	m.PID = stats.PID
	return m, nil
}

func (m *Mount) run(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, m.program, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("pipefs %s: %w: %s", args[0], err, strings.TrimSpace(stderr.String()))
	}
	return stdout.Bytes(), nil
}

// CPU is the CPU seconds, user and system, that the daemon has used.
func (m *Mount) CPU() (float64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", m.PID))
	if err != nil {
		return 0, err
	}
	// The name in parentheses may hold spaces; utime and stime are fields 14 and 15.
	f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(f) < 13 {
		return 0, fmt.Errorf("/proc/%d/stat has %d fields", m.PID, len(f))
	}
	user, err := strconv.ParseInt(f[11], 10, 64)
	if err != nil {
		return 0, err
	}
	system, err := strconv.ParseInt(f[12], 10, 64)
	const ticks = 100 // USER_HZ, the same on all architectures that Go knows
	return float64(user+system) / ticks, err
}

// Close unmounts and removes the directory. It works after a context has ended.
func (m *Mount) Close() error {
	var err error
	if m.PID != 0 {
		_, err = m.run(context.Background(), "umount", m.Dir)
	}
	// A mount that did not answer may be there all the same.
	if e := os.Remove(m.Dir); e != nil && !errors.Is(e, os.ErrNotExist) {
		if _, lazy := m.run(context.Background(), "umount", "--lazy", m.Dir); lazy == nil {
			e = os.Remove(m.Dir)
		}
		err = errors.Join(err, e)
	}
	return errors.Join(err, os.RemoveAll(m.log), os.Remove(m.parent))
}
