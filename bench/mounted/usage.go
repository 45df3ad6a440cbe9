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

// Slab is how many bytes the kernel keeps for each of so many files of the mount that
// were looked up: an inode, and a name (dentry), for each inode that FUSE has more
// than when this was mounted, by the sizes that /proc/slabinfo tells. Other mounts of
// FUSE must be quiet meanwhile, and memory plenty. The nodes that index the files'
// pages are not counted: they cannot be told from those of other files. 0 where the
// system does not tell, which it does to root alone.
func (m *Mount) Slab(files int) int64 {
	inodes, inode := slab("fuse_inode")
	_, dentry := slab("dentry")
	if files <= 0 || inodes <= m.inodes {
		return 0
	}
	return (inodes - m.inodes) * (inode + dentry) / int64(files)
}

// slab is how many objects of a kind the kernel has, and their size.
func slab(kind string) (active, size int64) {
	b, err := os.ReadFile("/proc/slabinfo")
	if err != nil {
		return 0, 0
	}
	return parseSlab(string(b), kind)
}

// parseSlab finds a line of NAME ACTIVE ALL SIZE …
func parseSlab(info, kind string) (active, size int64) {
	for line := range strings.Lines(info) {
		f := strings.Fields(line)
		if len(f) < 4 || f[0] != kind {
			continue
		}
		active, err := strconv.ParseInt(f[1], 10, 64)
		size, e := strconv.ParseInt(f[3], 10, 64)
		if err != nil || e != nil {
			return 0, 0
		}
		return active, size
	}
	return 0, 0
}
