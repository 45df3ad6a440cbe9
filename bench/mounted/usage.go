package mounted

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Usage is what the daemon has used since it was started.
type Usage struct {
	CPU float64 // seconds, user and system
	// Read is how many bytes it had fetched from a disk, the page cache not counted,
	// and Resident the most memory that it had at once. 0 where the system does not
	// tell.
	Read     int64
	Resident int64
}

// Usage is what the daemon has used so far.
func (m *Mount) Usage() (u Usage, err error) {
	if u.CPU, err = m.CPU(); err != nil {
		return Usage{}, err
	}
	if u.Read, err = m.proc("io", "read_bytes:", 1); err != nil {
		return Usage{}, err
	}
	if u.Resident, err = m.proc("status", "VmHWM:", 1<<10); err != nil {
		return Usage{}, err
	}
	return u, nil
}

// Spent is what the daemon uses while something is done; Resident is the most so far.
// Of no mount it is nothing.
func (m *Mount) Spent(do func() error) (Usage, error) {
	if m == nil {
		return Usage{}, do()
	}
	before, err := m.Usage()
	if err != nil {
		return Usage{}, err
	}
	if err := do(); err != nil {
		return Usage{}, err
	}
	u, err := m.Usage()
	u.CPU, u.Read = u.CPU-before.CPU, u.Read-before.Read
	return u, err
}

// CPU is the CPU seconds, user and system, that the daemon has used.
func (m *Mount) CPU() (float64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", m.PID))
	if gone := m.Alive(); gone != nil {
		return 0, gone
	}
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

// proc is the number after a key in a file of the daemon's directory in /proc, 0
// where this kernel does not have it, or does not tell this user.
func (m *Mount) proc(file, key string, unit int64) (int64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", m.PID, file))
	if gone := m.Alive(); gone != nil {
		return 0, gone
	}
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrPermission) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) >= 2 && f[0] == key {
			n, err := strconv.ParseInt(f[1], 10, 64)
			return n * unit, err
		}
	}
	return 0, nil
}
