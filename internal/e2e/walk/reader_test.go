package walk

import (
	"bytes"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/testenv"
)

// errBus is what a page says of a mapped file that cannot be read any more.
const errBus = unix.Errno(10001)

// now is the time that all processes share.
func now() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(err)
	}
	return t.Nano()
}

// A task is what a reader is told first.
type task struct {
	Mount, Expected string
	Modes           bool // the mount shows the modes of the dataset
	Locks           bool // the mount does not end: files that do not change can be read, and locked in memory
}

// An observation is what a reader answers to an operation.
type observation struct {
	Begin, End int64
	Errno      unix.Errno // 0 is none
	// Of what was read: the expected files that it equals, and that all before did which was read
	// through the same open file.
	Equal uint64
	Names []string // that a list has
	Wrong string   // what cannot be right whatever the versions are
	Idle  bool     // there was nothing to do: the slot is empty
	Reads int64    // by "preads"
}

// reader is a process that does what it is told.
type reader struct {
	task
	slots [slots]slot
	files map[string][]byte // expected files that were mapped, by path
}

// slot is a file that is open.
type slot struct {
	fd       int
	open     bool
	edited   bool
	expected [][]byte // by version; nil where the version has none
	equal    uint64
	drawn    bool // each open of the file is another draw: the first read says what is expected
}

// readerMain is the program of a reader.
func readerMain() {
	debug.SetPanicOnFault(true)
	r := &reader{files: map[string][]byte{}}
	in, out := gob.NewDecoder(os.Stdin), gob.NewEncoder(os.Stdout)
	if err := in.Decode(&r.task); err != nil {
		panic(err)
	}
	for {
		var o Op
		if err := in.Decode(&o); err != nil {
			break
		}
		seen := observation{Begin: now()}
		err := r.do(o, &seen)
		seen.End = now()
		if err != nil && !errors.As(err, &seen.Errno) {
			seen.Wrong = err.Error()
		}
		if err := out.Encode(seen); err != nil {
			panic(err)
		}
	}
	for i := range r.slots {
		r.close(&r.slots[i])
	}
	fds, err := os.ReadDir("/proc/self/fd")
	for _, e := range fds {
		if to, _ := os.Readlink("/proc/self/fd/" + e.Name()); strings.HasPrefix(to, r.Mount) {
			err = errors.Join(err, fmt.Errorf("%s is left open", to))
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func (r *reader) do(o Op, seen *observation) (err error) {
	s, path := &r.slots[o.Slot], filepath.Join(r.Mount, o.Path)
	switch o.Do {
	case "open":
		r.close(s)
		return r.open(s, o.Path, int(o.N)*unix.O_DIRECT)
	case "whole":
		var whole slot
		if err := r.open(&whole, o.Path, 0); err != nil {
			return err
		}
		defer r.close(&whole)
		if o.N == 1 {
			_ = unix.Fadvise(whole.fd, 0, 0, unix.FADV_DONTNEED)
		}
		err := r.read(&whole, Op{Do: "pread", M: 1 << 30})
		seen.Equal = whole.equal
		return err
	case "stat", "statx":
		var st unix.Stat_t
		if o.Do == "stat" {
			err = unix.Stat(path, &st)
		} else {
			var x unix.Statx_t
			err = unix.Statx(unix.AT_FDCWD, path, unix.AT_STATX_SYNC_AS_STAT, unix.STATX_SIZE|unix.STATX_MODE, &x)
			st.Size, st.Mode = int64(x.Size), uint32(x.Mode)
		}
		if err == nil {
			seen.Equal = r.equalSizes(o.Path, &st, seen)
		}
		return err
	case "access":
		return unix.Access(path, unix.R_OK)
	case "list":
		seen.Names, err = list(path, o.Slot)
		return err
	}
	if !s.open {
		seen.Idle = true
		return nil
	}
	switch o.Do {
	case "close":
		r.close(s)
		seen.Equal = ^uint64(0)
		return nil
	case "advise":
		seen.Equal = ^uint64(0)
		return unix.Fadvise(s.fd, 0, 0, unix.FADV_DONTNEED)
	case "fstat":
		var st unix.Stat_t
		if err := unix.Fstat(s.fd, &st); err != nil {
			return err
		}
		end, err := unix.Seek(s.fd, 0, unix.SEEK_END)
		if err == nil && end != st.Size {
			seen.Wrong = fmt.Sprintf("lseek says %d bytes, fstat %d", end, st.Size)
		}
		seen.Equal = ^uint64(0) // the attributes are those of the old file, or of the new one
		return err
	}
	times := int64(1)
	if o.Do == "preads" {
		if o.Do, times = "pread", 20; testenv.Soak() {
			times = 2000
		}
	}
	for ; seen.Reads < times && err == nil; seen.Reads++ {
		err = r.read(s, o)
		o.N = (o.N*31 + 7919) % 1_000_000
	}
	seen.Equal = s.equal
	return err
}

func (r *reader) open(s *slot, path string, flags int) (err error) {
	*s = slot{equal: ^uint64(0), expected: r.expected(path), drawn: drawn(path), edited: source(path) != ""}
	s.fd, err = unix.Open(filepath.Join(r.Mount, path), unix.O_RDONLY|unix.O_CLOEXEC|flags, 0)
	s.open = err == nil
	return err
}

func (r *reader) close(s *slot) {
	if s.open {
		_ = unix.Close(s.fd)
	}
	*s = slot{}
}

// expected are the files that a path may lead to, by version.
func (r *reader) expected(path string) (files [][]byte) {
	for _, name := range expectedFiles(r.Expected, path) {
		m, ok := r.files[name]
		if !ok {
			m, _ = os.ReadFile(name)
			r.files[name] = m
		}
		files = append(files, m)
	}
	return files
}

// equalSizes says which of the files have the size and the mode that stat says.
func (r *reader) equalSizes(path string, st *unix.Stat_t, seen *observation) (equal uint64) {
	if st.Mode&unix.S_IFMT != unix.S_IFREG || st.Mode&0o222 != 0 {
		seen.Wrong = fmt.Sprintf("its mode is %o", st.Mode)
	}
	if drawn(path) {
		return ^uint64(0)
	}
	for i, name := range expectedFiles(r.Expected, path) {
		var want unix.Stat_t
		if err := unix.Stat(name, &want); err == nil && want.Size == st.Size {
			equal |= 1 << i
			if r.Modes && st.Mode&0o777 != want.Mode&0o555 {
				seen.Wrong = fmt.Sprintf("its mode is %o instead of %o", st.Mode&0o777, want.Mode&0o555)
			}
		}
	}
	return equal
}

// read reads a part of a file in the way that is asked for, and compares it.
func (r *reader) read(s *slot, o Op) error {
	var st unix.Stat_t
	if err := unix.Fstat(s.fd, &st); err != nil {
		return err
	}
	off := st.Size * o.N / 1_000_000
	n := min(o.M, max(st.Size-off, 0)+9) // some bytes beyond the end are asked for
	room := make([]byte, n)
	if o.Do == "mlock" && (s.edited || !r.Locks) { // the kernel locks what cannot be read for ever: docs/generated/syscalls.md
		o.Do = "mmap"
	}
	got, err := r.get(s.fd, o.Do, room, off, st.Size)
	if err != nil {
		return err
	}
	if s.drawn {
		return r.readDrawn(s, room[:got], off, st.Size)
	}
	for i, want := range s.expected {
		if !holds(want, room[:got], off, int64(len(room))) {
			s.equal &^= 1 << i
		}
	}
	s.equal &= 1<<len(s.expected) - 1
	return nil
}

// holds says whether so many bytes that were asked for at an offset are those of a file.
func holds(file, got []byte, off, asked int64) bool {
	rest := file[min(off, int64(len(file))):]
	return file != nil && bytes.HasPrefix(rest, got) && len(got) == int(min(asked, int64(len(rest))))
}

// readDrawn: what is drawn stays the same while it is open.
func (r *reader) readDrawn(s *slot, got []byte, off, size int64) error {
	if s.expected == nil {
		whole := make([]byte, size)
		if _, err := unix.Pread(s.fd, whole, 0); err != nil {
			return err
		}
		s.expected = [][]byte{whole}
	}
	if !bytes.Equal(got, s.expected[0][min(off, size):][:len(got)]) {
		return errors.New("the same open file has other bytes")
	}
	return nil
}

// get fills room from a file at an offset, and returns how many bytes there were.
func (r *reader) get(fd int, how string, room []byte, off, size int64) (n int, err error) {
	more := func(read func(room []byte, off int64) (int, error)) (int, error) {
		for n < len(room) {
			k, err := read(room[n:], off+int64(n))
			if err != nil {
				return n, err
			}
			if k == 0 {
				break
			}
			n += k
		}
		return n, nil
	}
	switch how {
	case "pread":
		return more(func(room []byte, off int64) (int, error) { return unix.Pread(fd, room, off) })
	case "readv":
		return more(func(room []byte, off int64) (int, error) {
			half := len(room) / 3
			return unix.Preadv(fd, [][]byte{room[:half], room[half:]}, off)
		})
	case "mmap", "mlock":
		return r.mapped(fd, how == "mlock", room, off, size)
	case "sendfile", "splice":
		return r.piped(fd, how, room, off, size)
	}
	return 0, fmt.Errorf("there is no operation %q", how)
}

func (r *reader) mapped(fd int, lock bool, room []byte, off, size int64) (n int, err error) {
	if size == 0 {
		return 0, nil
	}
	m, err := unix.Mmap(fd, 0, int(size), unix.PROT_READ, []int{unix.MAP_SHARED, unix.MAP_PRIVATE}[len(room)%2])
	if err != nil {
		return 0, err
	}
	defer func() { _ = unix.Munmap(m) }()
	if lock {
		if err := unix.Mlock(m); err != nil {
			return 0, err
		}
	}
	defer func() {
		if fault, ok := recover().(interface{ Addr() uintptr }); ok {
			start := uintptr(unsafe.Pointer(&m[0]))
			if n, err = 0, errBus; fault.Addr() < start || fault.Addr() >= start+uintptr(size) {
				panic("a fault elsewhere")
			}
		}
	}()
	return copy(room, m[off:]), nil
}

func (r *reader) piped(fd int, how string, room []byte, off, size int64) (n int, err error) {
	pr, pw, err := os.Pipe()
	if err != nil {
		return 0, fmt.Errorf("pipe: %v", err) //nolint:errorlint // it is not the mount's
	}
	defer pr.Close()
	defer pw.Close()
	for want := min(int64(len(room)), size-off); int64(n) < want; {
		var k int
		if at := off + int64(n); how == "sendfile" {
			k, err = unix.Sendfile(int(pw.Fd()), fd, &at, int(min(want-int64(n), 32<<10)))
		} else {
			var long int64
			long, err = unix.Splice(fd, &at, int(pw.Fd()), nil, int(min(want-int64(n), 32<<10)), 0)
			k = int(long)
		}
		if err != nil || k == 0 {
			return n, err
		}
		if _, err := io.ReadFull(pr, room[n:n+k]); err != nil {
			return n, fmt.Errorf("pipe: %v", err) //nolint:errorlint // it is not the mount's
		}
		n += k
	}
	return n, nil
}

// list lists a directory, goes back to where it was after some entries, and lists the rest again.
func list(path string, after int) (names []string, err error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	names, offsets, err := entries(fd)
	if err != nil {
		return nil, err
	}
	dots := func(n string) bool { return n == "." || n == ".." }
	if len(names) <= after {
		return slices.DeleteFunc(names, dots), nil
	}
	if _, err := unix.Seek(fd, offsets[after], unix.SEEK_SET); err != nil {
		return nil, err
	}
	again, _, err := entries(fd)
	if err != nil {
		return nil, err
	}
	if !slices.Equal(again, names[after+1:]) {
		return nil, fmt.Errorf("listed %q, and again after %q: %q", names, names[after], again)
	}
	return slices.DeleteFunc(names, dots), nil
}

// entries are the names that a directory lists from where it is, and the offset after each.
func entries(fd int) (names []string, offsets []int64, err error) {
	room := make([]byte, 1024)
	for {
		n, err := unix.Getdents(fd, room)
		if err != nil || n == 0 {
			return names, offsets, err
		}
		for rest := room[:n]; len(rest) > 0; {
			d := (*unix.Dirent)(unsafe.Pointer(&rest[0]))
			name := rest[unsafe.Offsetof(d.Name):d.Reclen]
			names = append(names, string(name[:max(bytes.IndexByte(name, 0), 0)]))
			offsets = append(offsets, d.Off)
			rest = rest[d.Reclen:]
		}
	}
}
