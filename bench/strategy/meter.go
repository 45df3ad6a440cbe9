package strategy

import (
	"fmt"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/bench/loader"
)

// meter measures the cost of what this process does.
type meter struct {
	began time.Time
	cpu   float64
	disk  int64
}

// cost is wall time and CPU time, in seconds, and bytes that came from a disk.
type cost struct {
	seconds, cpu float64
	disk         int64
}

// begin collects garbage first, so that it is not counted.
func begin() meter {
	runtime.GC()
	return meter{time.Now(), loader.OwnCPU(), loader.OwnDisk()}
}

func (m meter) end() cost {
	// At least a nanosecond, so that rates are finite.
	seconds := max(time.Since(m.began), 1).Seconds()
	return cost{seconds, loader.OwnCPU() - m.cpu, loader.OwnDisk() - m.disk}
}

// writeBack writes back what is dirty in the file system of a directory, so that all of
// it can be dropped.
func writeBack(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := unix.Syncfs(int(d.Fd())); err != nil {
		return fmt.Errorf("writing back what is dirty below %s: %w", dir, err)
	}
	return nil
}

// RoomError is that the disk has no room for what would be stored.
type RoomError struct {
	Dir        string
	Need, Free int64 // bytes
}

func (e *RoomError) Error() string {
	return fmt.Sprintf("%.1f MB would be stored in %s, where only %.1f MB may be used; take fewer samples, or another directory to work in",
		float64(e.Need)/1e6, e.Dir, float64(e.Free)/1e6)
}

// checkRoom fails if there is no room for so many bytes. A hundredth of the disk, at most
// 1 GiB, stays free.
func checkRoom(dir string, need int64) error {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return fmt.Errorf("how much is free in %s: %w", dir, err)
	}
	free := int64(st.Bavail)*st.Bsize - min(int64(st.Blocks)*st.Bsize/100, 1<<30)
	if need > free {
		return &RoomError{dir, need, max(free, 0)}
	}
	return nil
}

// inMemory reports whether a directory lies in memory: then nothing is read from a disk.
func inMemory(dir string) bool {
	var st unix.Statfs_t
	if unix.Statfs(dir, &st) != nil {
		return false
	}
	return st.Type == unix.TMPFS_MAGIC || st.Type == unix.RAMFS_MAGIC
}
