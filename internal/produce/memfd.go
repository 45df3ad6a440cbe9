package produce

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// budget is a promise not to hold more than limit bytes.
type budget struct {
	limit int64
	held  atomic.Int64
}

func (b *budget) take(n int64) bool {
	if b.held.Add(n) <= b.limit {
		return true
	}
	b.held.Add(-n)
	return false
}

// memfdReader reads a memfd and gives its bytes back when it is closed.
type memfdReader struct {
	*os.File
	size   int64
	budget *budget
}

func (m memfdReader) Close() error {
	m.budget.held.Add(-m.size)
	return m.File.Close()
}

// intoMemory moves content into a memfd, if the budget has room for it. Where
// it has not, or the system gives none, the content stays as it is: a full
// cache is no error.
func (p *Producer) intoMemory(c *Content) error {
	if c.size == 0 || !p.memfds.take(c.size) {
		return nil
	}
	fd, err := unix.MemfdCreate("pipefs", unix.MFD_CLOEXEC)
	if err != nil {
		p.memfds.held.Add(-c.size)
		return nil
	}
	f := os.NewFile(uintptr(fd), "memfd:pipefs")
	if _, err := io.Copy(f, io.NewSectionReader(c.reader, 0, c.size)); errors.Is(err, unix.ENOMEM) || errors.Is(err, unix.ENOSPC) {
		f.Close()
		p.memfds.held.Add(-c.size)
		return nil
	} else if err != nil {
		f.Close()
		p.memfds.held.Add(-c.size)
		return fmt.Errorf("reading into memory: %w", err)
	}
	c.reader.Close()
	c.reader, c.memory, c.cost = memfdReader{f, c.size, &p.memfds}, f, c.size
	return nil
}
