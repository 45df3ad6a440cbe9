package serve

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"os"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/store/vfs"
)

// ReaderAt is what Content holds open.
type ReaderAt interface {
	io.ReaderAt
	io.Closer
}

// Content is the open bytes of one file in one view. Whoever got it from
// [Handle.Cached] or [Handle.Open] holds a pin and has to Release it.
type Content struct {
	size   int64
	reader ReaderAt
	memory *os.File // the memfd behind reader, or nil
	cost   int64    // bytes that it takes from the budget
	refs   atomic.Int32
	passed atomic.Int64 // bytes, see Passed
	// fetched counts the bytes that are read; nil where they are in memory.
	fetched *atomic.Int64

	backing atomic.Int32 // see Back
	forget  func(int32)
}

// Size of the content in bytes.
func (c *Content) Size() int64 { return c.size }

// Memory is a memfd that holds exactly the content, or nil. It is valid until
// Release.
func (c *Content) Memory() *os.File { return c.memory }

// ReadAt implements [io.ReaderAt]. It does not allocate.
func (c *Content) ReadAt(b []byte, off int64) (int, error) {
	if off >= c.size {
		return 0, io.EOF
	}
	short := int64(len(b)) > c.size-off
	if short {
		b = b[:c.size-off]
	}
	n, err := c.reader.ReadAt(b, off)
	if c.fetched != nil {
		c.fetched.Add(int64(n))
	}
	if err == nil && short {
		err = io.EOF
	}
	return n, err
}

// Bytes returns up to n bytes at off, where they lie in memory in one piece, and
// nil otherwise. Nobody may change them; they are valid until Release.
func (c *Content) Bytes(off int64, n int) []byte {
	m, ok := c.reader.(memory)
	if !ok || off < 0 || off >= int64(len(m.data)) {
		return nil
	}
	end := min(off+int64(n), c.size)
	if end > int64(len(m.data)) {
		return nil
	}
	return m.data[off:end:end]
}

// Release gives the pin back.
func (c *Content) Release() {
	if c.refs.Add(-1) == 0 {
		if id := c.backing.Load(); id != 0 {
			c.forget(id)
		}
		c.reader.Close()
	}
}

// Backing is the number that Back noted, or 0.
func (c *Content) Backing() int32 { return c.backing.Load() }

// Back notes the number by which the kernel knows Memory: it need not be told at
// each open. Right before the memory goes, forget is called with it. Only one may
// note one, once, who holds a pin.
func (c *Content) Back(id int32, forget func(id int32)) {
	c.forget = forget
	c.backing.Store(id)
}

// Pin pins the content once more.
func (c *Content) Pin() { c.refs.Add(1) }

// Passed notes that n bytes have been passed on, and reports whether by now as many
// were as there are, of content that takes memory: somebody who keeps what he gets
// will not ask again.
func (c *Content) Passed(n int) bool {
	return c.cost > 0 && c.passed.Add(int64(n)) >= c.size
}

// memory is content that is in the daemon's own memory, as one or two pieces: a
// prefix of what was produced and a literal tail.
type memory struct {
	data, tail []byte
	made       *result
}

func (m memory) ReadAt(b []byte, off int64) (int, error) {
	n := 0
	if off < int64(len(m.data)) {
		n = copy(b, m.data[off:])
	}
	if from := off + int64(n) - int64(len(m.data)); from >= 0 && from < int64(len(m.tail)) {
		n += copy(b[n:], m.tail[from:])
	}
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

func (m memory) Close() error {
	m.made.release()
	return nil
}

// budget is a promise not to hold more than limit bytes.
type budget struct {
	limit int64
	held  atomic.Int64
}

// take is never seen to hold more than the limit, not even while it finds that there
// is none left: others would be refused what they could have.
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
	// as large pieces as a file takes: it is filled in a third of the time of
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

// intoMemory moves content into a file in memory, if the budget allows it.
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
	defer func() { s.sources.put(buf) }()
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

// buffers are memory for sources and results. It is used again, since touching new
// memory costs about as much as decoding a fast format into it.
type buffers struct {
	// classes are by size, four to each power of two: at most a fifth is wasted.
	classes [4 * 64]sync.Pool
	// poison overwrites what comes back, so that tests see a later use of it.
	poison bool
}

// class returns the smallest class whose buffers hold size bytes, and how
// many they have.
func class(size int64) (index int, length int64) {
	size = max(size, 5)
	shift := bits.Len64(uint64(size-1)) - 3
	quarters := (size-1)>>shift + 1 // 5 to 8
	return 4*shift + int(quarters-4), quarters << shift
}

// get returns a buffer of size bytes, with anything in it.
func (s *buffers) get(size int64) []byte {
	index, length := class(size)
	if b, ok := s.classes[index].Get().(*byte); ok {
		return unsafe.Slice(b, length)[:size]
	}
	return make([]byte, size, length)
}

// put takes a buffer back, which nobody uses from then on; or nil.
func (s *buffers) put(b []byte) {
	index, length := class(int64(cap(b)))
	if length != int64(cap(b)) {
		return // not from here
	}
	if s.poison {
		b = b[:cap(b)]
		for i := range b {
			b[i] = 0xdb
		}
	}
	s.classes[index].Put(unsafe.SliceData(b))
}
