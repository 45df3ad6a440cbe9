package serve

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/store/vfs"
)

// budget is a promise not to hold more than limit bytes.
type budget struct {
	limit int64
	held  atomic.Int64
}

// take is never seen to hold more than the limit, not even while it finds that there
// is no room: others would be refused what they have room for.
func (b *budget) take(n int64) bool {
	for {
		held := b.held.Load()
		if held+n > b.limit {
			return false
		}
		if b.held.CompareAndSwap(held, held+n) {
			return true
		}
	}
}

func (b *budget) give(n int64) { b.held.Add(-n) }

// memfdReader reads a file in memory and gives its bytes back when it is closed.
type memfdReader struct {
	*os.File
	size   int64
	budget *budget
}

func (m memfdReader) Close() error {
	defer m.budget.give(m.size)
	return m.File.Close()
}

// pageSize is the least memory that a file takes, in bytes.
var pageSize = int64(os.Getpagesize())

// inPages is what size bytes take in memory.
func inPages(size int64) int64 { return (size + pageSize - 1) / pageSize * pageSize }

// memoryFiles makes files that are in memory only and have no name.
type memoryFiles struct {
	// dir is the root of a tmpfs of our own, mounted nowhere, whose memory comes in
	// as large pieces as a file has room for: it is filled in a third of the time of
	// a memfd, in pages of 4 KiB, and read in two thirds. Mounting takes privilege;
	// nil where it is not permitted.
	dir *os.File
}

func newMemoryFiles(wanted bool) memoryFiles {
	if wanted {
		if dir, err := mountMemory(); err == nil {
			return memoryFiles{os.NewFile(uintptr(dir), "tmpfs:pipefs")}
		}
	}
	return memoryFiles{}
}

func mountMemory() (dir int, err error) {
	fs, err := unix.Fsopen("tmpfs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, err
	}
	defer unix.Close(fs)
	// No limits but our own budget.
	for key, value := range map[string]string{"huge": "within_size", "size": "0", "nr_inodes": "0", "mode": "0700"} {
		if err := unix.FsconfigSetString(fs, key, value); err != nil {
			return -1, err
		}
	}
	if err := unix.FsconfigCreate(fs); err != nil {
		return -1, err
	}
	return unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC|unix.MOUNT_ATTR_NOATIME)
}

func (m memoryFiles) create() (_ *os.File, err error) {
	var fd int
	if m.dir != nil {
		err = vfs.Control(m.dir, func(dir int) (err error) { // it is closed at the end of the mount
			fd, err = unix.Openat(dir, ".", unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
			return err
		})
	} else {
		fd, err = unix.MemfdCreate("pipefs", unix.MFD_CLOEXEC)
	}
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "memory:pipefs"), nil
}

// close ends the making of files; those that there are stay.
func (m memoryFiles) close() {
	if m.dir != nil {
		m.dir.Close()
	}
}

// intoMemory moves content into a file in memory, if the budget has room for it.
// Where it has not, or the system gives none, the content stays as it is: a full
// cache is no error.
func (s *Server) intoMemory(c *Content) error {
	takes := inPages(c.size)
	if c.size == 0 || !s.memfds.take(takes) {
		return nil
	}
	f, err := s.files.create()
	if err != nil {
		s.memfds.give(takes)
		return nil
	}
	if err := s.fill(f, c); err != nil {
		f.Close()
		s.memfds.give(takes)
		if errors.Is(err, unix.ENOMEM) || errors.Is(err, unix.ENOSPC) {
			return nil
		}
		return fmt.Errorf("reading into memory: %w", err)
	}
	if m, ok := c.reader.(memory); ok && !m.made.shared {
		s.forget(m.made) // once is enough
	}
	c.reader.Close()
	c.reader, c.memory, c.cost, c.fetched = memfdReader{f, takes, &s.memfds}, f, takes, nil
	return nil
}

// fillBytes bounds what is written to memory at once. The larger the writes, the
// larger the pieces that the kernel takes for it.
const fillBytes = 2 << 20

// fill copies content to a file.
func (s *Server) fill(f *os.File, c *Content) error {
	var buf []byte
	defer func() {
		if buf != nil {
			s.sources.put(buf)
		}
	}()
	for off := int64(0); off < c.size; {
		part := c.Bytes(off, int(min(fillBytes, c.size-off)))
		if part == nil {
			if buf == nil {
				buf = s.sources.get(min(fillBytes, c.size))
			}
			n, err := c.ReadAt(buf[:min(fillBytes, c.size-off)], off)
			if n == 0 {
				return cmp.Or(err, io.ErrUnexpectedEOF)
			}
			part = buf[:n]
		}
		n, err := f.Write(part)
		if err != nil {
			return err
		}
		off += int64(n)
	}
	return nil
}
