package walk

import (
	"fmt"
	"path/filepath"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

var (
	long  = "/" + strings.Repeat("n", 256)
	times = make([]unix.Timespec, 2)
)

// ioctl is a call with room for an answer, which is not compared.
func ioctl(request uintptr) func(target) string {
	return fd(func(fd int) string {
		var room [4096]byte
		_, _, no := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(unsafe.Pointer(&room)))
		if no != 0 {
			return result(no)
		}
		return "OK"
	})
}

func lock(typ int16, cmd int) func(int) string {
	return func(fd int) string {
		return result(unix.FcntlFlock(uintptr(fd), cmd, &unix.Flock_t{Type: typ, Len: 1}))
	}
}

func seek(offset int64, whence int) func(target) string {
	return onFile(fd(func(fd int) string { return value(unix.Seek(fd, offset, whence)) }))
}

func seekFromSize(after int64, whence int) func(target) string {
	return onFile(fd(func(fd int) string {
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil {
			return result(err)
		}
		return value(unix.Seek(fd, st.Size+after, whence))
	}))
}

func mapped(prot, flags int) func(target) string {
	return fd(func(fd int) string {
		m, err := unix.Mmap(fd, 0, 1, prot, flags)
		if err == nil {
			err = unix.Munmap(m)
		}
		return result(err)
	})
}

func renameTo(to string, flags uint) func(target) string {
	return func(n target) string {
		return result(unix.Renameat2(unix.AT_FDCWD, n.path, unix.AT_FDCWD, filepath.Join(n.top, to), flags))
	}
}

func access(mode uint32, flags int) func(target) string {
	return onPath("", func(p string) error { return unix.Faccessat2(unix.AT_FDCWD, p, mode, flags) })
}

// calls are tried in this order.
var calls = []struct {
	name string
	do   func(target) string
}{
	// open
	{"open O_RDONLY", open("", unix.O_RDONLY)},
	{"open O_WRONLY", open("", unix.O_WRONLY)},
	{"open O_RDWR", open("", unix.O_RDWR)},
	{"open O_WRONLY O_TRUNC", open("", unix.O_WRONLY|unix.O_TRUNC)},
	{"open O_RDONLY O_TRUNC", open("", unix.O_RDONLY|unix.O_TRUNC)},
	{"open O_WRONLY O_APPEND", open("", unix.O_WRONLY|unix.O_APPEND)},
	{"open O_RDONLY O_APPEND", open("", unix.O_RDONLY|unix.O_APPEND)},
	{"open O_CREAT", open("", unix.O_CREAT)},
	{"open O_CREAT O_EXCL", open("", unix.O_CREAT|unix.O_EXCL)},
	{"open O_CREAT O_WRONLY", open("", unix.O_CREAT|unix.O_WRONLY)},
	{"open O_CREAT O_DIRECTORY", open("", unix.O_CREAT|unix.O_DIRECTORY)},
	{"open O_CREAT of a new name", open("/new", unix.O_CREAT|unix.O_WRONLY)},
	{"open O_DIRECTORY", open("", unix.O_DIRECTORY)},
	{"open O_NOFOLLOW", open("", unix.O_NOFOLLOW)},
	{"open O_PATH", open("", unix.O_PATH)},
	{"open O_PATH O_NOFOLLOW", open("", unix.O_PATH|unix.O_NOFOLLOW)},
	{"open O_DIRECT", open("", unix.O_DIRECT)},
	{"open O_SYNC", open("", unix.O_SYNC)},
	{"open O_NOATIME", open("", unix.O_NOATIME)},
	{"open O_NONBLOCK", open("", unix.O_NONBLOCK)},
	{"open O_TMPFILE", open("", unix.O_TMPFILE|unix.O_WRONLY)},
	{"open O_TMPFILE O_RDONLY", open("", unix.O_TMPFILE)},
	{"open O_ACCMODE", open("", unix.O_ACCMODE)},
	{"open of a name with /", open("/", unix.O_RDONLY)},
	{"open O_WRONLY of a name with /", open("/", unix.O_WRONLY)},
	{"open of a name with /.", open("/.", unix.O_RDONLY)},
	{"open of a name with /..", open("/..", unix.O_RDONLY)},
	{"open of no such name", open("/none", unix.O_RDONLY)},
	{"open of a name of 256 bytes", open(long, unix.O_RDONLY)},
	{"open of a path of 4096 bytes", open(strings.Repeat("/.", 2048), unix.O_RDONLY)},
	{"open of a name that is no UTF-8", open("/\xff\xfe", unix.O_RDONLY)},
	{"openat2 RESOLVE_NO_SYMLINKS", func(n target) string {
		fd, err := unix.Openat2(unix.AT_FDCWD, n.path, &unix.OpenHow{Resolve: unix.RESOLVE_NO_SYMLINKS})
		if err == nil {
			unix.Close(fd)
		}
		return result(err)
	}},
	{"open .. of the top", func(n target) string {
		var st, parent unix.Stat_t
		if err := unix.Stat(n.top+"/..", &st); err != nil {
			return result(err)
		}
		return fmt.Sprint(unix.Stat(filepath.Dir(n.top), &parent) == nil && st.Ino == parent.Ino)
	}},

	// names
	{"mkdir", onPath("", func(p string) error { return unix.Mkdir(p, 0o755) })},
	{"mkdir of a new name", onPath("/new", func(p string) error { return unix.Mkdir(p, 0o755) })},
	{"mkdir of a new name with /", onPath("/new/", func(p string) error { return unix.Mkdir(p, 0o755) })},
	{"mkdir of a name of 256 bytes", onPath(long, func(p string) error { return unix.Mkdir(p, 0o755) })},
	{"rmdir", onPath("", unix.Rmdir)},
	{"rmdir of .", onPath("/.", unix.Rmdir)},
	{"rmdir of ..", onPath("/..", unix.Rmdir)},
	{"rmdir of no such name", onPath("/none", unix.Rmdir)},
	{"unlink", onPath("", unix.Unlink)},
	{"unlink of a name with /", onPath("/", unix.Unlink)},
	{"unlink of no such name", onPath("/none", unix.Unlink)},
	{"rename to a new name", renameTo("bmp/new", 0)},
	{"rename to itself", func(n target) string { return result(unix.Rename(n.path, n.path)) }},
	{"rename to another file", renameTo("original/cats/1.jpg", 0)},
	{"rename to a directory", renameTo("original", 0)},
	{"rename into itself", func(n target) string { return result(unix.Rename(n.path, n.path+"/in")) }},
	{"rename RENAME_NOREPLACE", renameTo("original/cats/1.jpg", unix.RENAME_NOREPLACE)},
	{"rename RENAME_EXCHANGE", renameTo("original/cats/1.jpg", unix.RENAME_EXCHANGE)},
	{"rename RENAME_WHITEOUT", renameTo("bmp/new", unix.RENAME_WHITEOUT)},
	{"rename to another file system", func(n target) string { return result(unix.Rename(n.path, n.t.TempDir()+"/new")) }},
	{"link to a new name", func(n target) string { return result(unix.Link(n.path, n.top+"/bmp/new")) }},
	{"link to a name that is there", func(n target) string { return result(unix.Link(n.path, n.top+"/original")) }},
	{"symlink", onPath("", func(p string) error { return unix.Symlink("x", p) })},
	{"symlink of a new name", onPath("/new", func(p string) error { return unix.Symlink("x", p) })},
	{"mknod of a pipe", onPath("/new", func(p string) error { return unix.Mknod(p, unix.S_IFIFO|0o644, 0) })},
	{"mknod of a file", onPath("/new", func(p string) error { return unix.Mknod(p, unix.S_IFREG|0o644, 0) })},
	{"mknod of a device", onPath("/new", func(p string) error { return unix.Mknod(p, unix.S_IFCHR|0o644, 0x103) })},
	{"mknod", onPath("", func(p string) error { return unix.Mknod(p, unix.S_IFIFO|0o644, 0) })},
	{"readlink", onPath("", func(p string) error { _, err := unix.Readlink(p, make([]byte, 4096)); return err })},
	{"chdir", onPath("", func(p string) error { // of no process: the others run on
		fd, err := unix.Open(p, unix.O_PATH|unix.O_DIRECTORY, 0)
		unix.Close(fd)
		return err
	})},

	// attributes
	{"chmod", onPath("", func(p string) error { return unix.Chmod(p, 0o777) })},
	{"fchmod", fd(func(fd int) string { return result(unix.Fchmod(fd, 0o777)) })},
	{"fchmodat AT_SYMLINK_NOFOLLOW", onPath("", func(p string) error { return unix.Fchmodat(unix.AT_FDCWD, p, 0o777, unix.AT_SYMLINK_NOFOLLOW) })},
	{"chown", onPath("", func(p string) error { return unix.Chown(p, 1, 1) })},
	{"chown to -1", onPath("", func(p string) error { return unix.Chown(p, -1, -1) })},
	{"lchown", onPath("", func(p string) error { return unix.Lchown(p, 1, 1) })},
	{"fchown", fd(func(fd int) string { return result(unix.Fchown(fd, 1, 1)) })},
	{"utimensat", onPath("", func(p string) error { return unix.UtimesNanoAt(unix.AT_FDCWD, p, times, 0) })},
	{"utimensat AT_SYMLINK_NOFOLLOW", onPath("", func(p string) error {
		return unix.UtimesNanoAt(unix.AT_FDCWD, p, times, unix.AT_SYMLINK_NOFOLLOW)
	})},
	{"utimensat UTIME_OMIT", onPath("", func(p string) error {
		return unix.UtimesNanoAt(unix.AT_FDCWD, p, []unix.Timespec{{Nsec: unix.UTIME_OMIT}, {Nsec: unix.UTIME_OMIT}}, 0)
	})},
	{"truncate", onPath("", func(p string) error { return unix.Truncate(p, 0) })},
	{"truncate to more", onPath("", func(p string) error { return unix.Truncate(p, 1<<20) })},
	{"truncate to -1", onPath("", func(p string) error { return unix.Truncate(p, -1) })},
	{"ftruncate", fd(func(fd int) string { return result(unix.Ftruncate(fd, 0)) })},
	{"setxattr", onPath("", func(p string) error { return unix.Setxattr(p, "user.x", []byte("y"), 0) })},
	{"setxattr of trusted", onPath("", func(p string) error { return unix.Setxattr(p, "trusted.x", []byte("y"), 0) })},
	{"setxattr of no such class", onPath("", func(p string) error { return unix.Setxattr(p, "x", []byte("y"), 0) })},
	{"getxattr", onPath("", func(p string) error { _, err := unix.Getxattr(p, "user.x", nil); return err })},
	{"getxattr of security.capability", onPath("", func(p string) error { _, err := unix.Getxattr(p, "security.capability", nil); return err })},
	{"getxattr of system.posix_acl_access", onPath("", func(p string) error {
		_, err := unix.Getxattr(p, "system.posix_acl_access", nil)
		return err
	})},
	{"listxattr", onPath("", func(p string) error { _, err := unix.Listxattr(p, nil); return err })},
	{"removexattr", onPath("", func(p string) error { return unix.Removexattr(p, "user.x") })},
	{"lstat: type", func(n target) string {
		var st unix.Stat_t
		err := unix.Lstat(n.path, &st)
		if err != nil {
			return result(err)
		}
		return map[uint32]string{unix.S_IFREG: "file", unix.S_IFDIR: "directory", unix.S_IFLNK: "link"}[st.Mode&unix.S_IFMT]
	}},
	{"stat: mode", func(n target) string {
		var st unix.Stat_t
		if err := unix.Stat(n.path, &st); err != nil {
			return result(err)
		}
		return fmt.Sprintf("%o", st.Mode)
	}},
	{"stat: links", func(n target) string {
		var st unix.Stat_t
		err := unix.Stat(n.path, &st)
		return value(int64(st.Nlink), err) //nolint:unconvert // it is another type on arm64
	}},
	{"stat: size, blocks of it", onFile(func(n target) string {
		var st unix.Stat_t
		err := unix.Stat(n.path, &st)
		return fmt.Sprint(st.Size, " ", st.Blocks*512 >= st.Size, " ", result(err))
	})},
	{"statx: what it tells", func(n target) string {
		var st unix.Statx_t
		if err := unix.Statx(unix.AT_FDCWD, n.path, 0, unix.STATX_BASIC_STATS|unix.STATX_BTIME, &st); err != nil {
			return result(err)
		}
		return fmt.Sprintf("%#x", st.Mask&(unix.STATX_BASIC_STATS|unix.STATX_BTIME))
	}},
	{"access R_OK", access(unix.R_OK, 0)},
	{"access W_OK", access(unix.W_OK, 0)},
	{"access X_OK", access(unix.X_OK, 0)},
	{"access F_OK", access(unix.F_OK, 0)},
	{"access R_OK AT_EACCESS", access(unix.R_OK, unix.AT_EACCESS)},
	{"access of a bad mode", access(8, 0)},
	{"access F_OK of no such name", onPath("/none", func(p string) error { return unix.Access(p, unix.F_OK) })},

	// contents
	{"read of nothing", onFile(fd(func(fd int) string { return value(unix.Read(fd, nil)) }))},
	{"read of a directory", fd(func(fd int) string { _, err := unix.Read(fd, make([]byte, 8)); return result(err) })},
	{"read beyond the end", onFile(fd(func(fd int) string { return value(unix.Pread(fd, make([]byte, 8), 1<<30)) }))},
	{"pread at -1", fd(func(fd int) string { return value(unix.Pread(fd, make([]byte, 8), -1)) })},
	{"pread at 2^63-1", onFile(fd(func(fd int) string { return value(unix.Pread(fd, make([]byte, 8), 1<<63-1)) }))},
	{"pread into a bad address", onFile(fd(func(fd int) string {
		_, _, no := unix.Syscall6(unix.SYS_PREAD64, uintptr(fd), 1, 8, 0, 0, 0)
		return result(no)
	}))},
	{"preadv2 RWF_NOWAIT of what is cached", onFile(fd(func(fd int) string {
		if _, err := unix.Pread(fd, make([]byte, 8), 0); err != nil {
			return result(err)
		}
		return value(unix.Preadv2(fd, [][]byte{make([]byte, 8)}, 0, unix.RWF_NOWAIT))
	}))},
	{"read O_DIRECT of a block", onFile(opened(unix.O_DIRECT, func(fd int) string {
		room := make([]byte, 8192)
		start := -int(uintptr(unsafe.Pointer(&room[0]))) & 4095
		_, err := unix.Pread(fd, room[start:start+4096], 0)
		return result(err)
	}))},
	{"read O_DIRECT at 1", onFile(opened(unix.O_DIRECT, func(fd int) string { _, err := unix.Pread(fd, make([]byte, 8), 1); return result(err) }))},
	{"write", fd(func(fd int) string { return value(unix.Write(fd, []byte("x"))) })},
	{"write O_RDWR", opened(unix.O_RDWR, func(fd int) string { return value(unix.Write(fd, []byte("x"))) })},
	{"ftruncate O_RDWR", opened(unix.O_RDWR, func(fd int) string { return result(unix.Ftruncate(fd, 0)) })},
	{"fallocate O_RDWR", opened(unix.O_RDWR, func(fd int) string { return result(unix.Fallocate(fd, 0, 0, 1)) })},
	{"pwrite at -1", fd(func(fd int) string { return value(unix.Pwrite(fd, []byte("x"), -1)) })},
	{"fallocate", fd(func(fd int) string { return result(unix.Fallocate(fd, 0, 0, 1)) })},
	{"fallocate FALLOC_FL_PUNCH_HOLE", fd(func(fd int) string {
		return result(unix.Fallocate(fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, 1))
	})},
	{"fsync", fd(func(fd int) string { return result(unix.Fsync(fd)) })},
	{"fdatasync", fd(func(fd int) string { return result(unix.Fdatasync(fd)) })},
	{"syncfs", fd(func(fd int) string { return result(unix.Syncfs(fd)) })},
	{"sync_file_range", fd(func(fd int) string { return result(unix.SyncFileRange(fd, 0, 1, 0)) })},
	{"fadvise", fd(func(fd int) string { return result(unix.Fadvise(fd, 0, 0, unix.FADV_WILLNEED)) })},
	{"fadvise of no such advice", fd(func(fd int) string { return result(unix.Fadvise(fd, 0, 0, 99)) })},
	{"readahead", fd(func(fd int) string {
		_, _, no := unix.Syscall(unix.SYS_READAHEAD, uintptr(fd), 0, 4096)
		return result(no)
	})},
	{"lseek beyond the end", seek(1<<40, unix.SEEK_SET)},
	{"lseek to -1", seek(-1, unix.SEEK_SET)},
	{"lseek to 2^63-1", seek(1<<63-1, unix.SEEK_SET)},
	{"lseek SEEK_END", seek(0, unix.SEEK_END)},
	{"lseek SEEK_DATA", seek(0, unix.SEEK_DATA)},
	{"lseek SEEK_HOLE", seek(0, unix.SEEK_HOLE)},
	{"lseek SEEK_DATA at the end", seekFromSize(0, unix.SEEK_DATA)},
	{"lseek SEEK_HOLE at the end", seekFromSize(0, unix.SEEK_HOLE)},
	{"lseek SEEK_DATA before the end", seekFromSize(-1, unix.SEEK_DATA)},
	{"lseek of no such kind", seek(0, 99)},
	{"mmap PROT_READ MAP_SHARED", mapped(unix.PROT_READ, unix.MAP_SHARED)},
	{"mmap PROT_READ MAP_PRIVATE", mapped(unix.PROT_READ, unix.MAP_PRIVATE)},
	{"mmap PROT_WRITE MAP_SHARED", mapped(unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)},
	{"mmap PROT_WRITE MAP_PRIVATE", mapped(unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE)},
	{"mmap PROT_EXEC", mapped(unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE)},
	{"mmap MAP_SYNC", mapped(unix.PROT_READ, unix.MAP_SHARED_VALIDATE|unix.MAP_SYNC)},
	{"copy_file_range", outside(func(fd, other int) (int, error) { return unix.CopyFileRange(fd, nil, other, nil, 1<<20, 0) })},
	{"copy_file_range from elsewhere", outside(func(fd, other int) (int, error) { return unix.CopyFileRange(other, nil, fd, nil, 8, 0) })},
	{"sendfile", outside(func(fd, other int) (int, error) { return unix.Sendfile(other, fd, nil, 1<<20) })},
	{"splice", piped(func(fd, pipe int) (int64, error) { return unix.Splice(fd, nil, pipe, nil, 8, 0) })},
	{"FICLONE", outside(func(fd, other int) (int, error) { return 0, unix.IoctlFileClone(other, fd) })},
	{"FICLONE from elsewhere", outside(func(fd, other int) (int, error) { return 0, unix.IoctlFileClone(fd, other) })},
	{"getdents of a file, or into 8 bytes", fd(func(fd int) string { return value(unix.Getdents(fd, make([]byte, 8))) })},

	// the rest
	{"ioctl TCGETS", ioctl(unix.TCGETS)},
	{"ioctl FIONREAD", ioctl(unix.TIOCINQ)},
	{"ioctl FIGETBSZ", ioctl(2)},
	{"ioctl FIBMAP", ioctl(1)},
	{"ioctl FS_IOC_GETFLAGS", ioctl(unix.FS_IOC_GETFLAGS)},
	{"ioctl FS_IOC_SETFLAGS", ioctl(0x40086602)},
	{"ioctl FS_IOC_FIEMAP", fd(func(fd int) string {
		room := [8]uint64{1: 1 << 62} // as long as there is
		_, _, no := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), 0xc020660b, uintptr(unsafe.Pointer(&room)))
		if no != 0 {
			return result(no)
		}
		return "OK"
	})},
	{"ioctl of no such number", ioctl(0xbeef)},
	{"flock LOCK_SH", fd(func(fd int) string { return result(unix.Flock(fd, unix.LOCK_SH|unix.LOCK_NB)) })},
	{"flock LOCK_EX", fd(func(fd int) string { return result(unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)) })},
	{"flock LOCK_UN", fd(func(fd int) string { return result(unix.Flock(fd, unix.LOCK_UN)) })},
	{"fcntl F_SETLK F_RDLCK", fd(lock(unix.F_RDLCK, unix.F_SETLK))},
	{"fcntl F_SETLK F_WRLCK", fd(lock(unix.F_WRLCK, unix.F_SETLK))},
	{"fcntl F_OFD_SETLK F_RDLCK", fd(lock(unix.F_RDLCK, unix.F_OFD_SETLK))},
	{"fcntl F_GETLK", fd(lock(unix.F_RDLCK, unix.F_GETLK))},
	{"fcntl F_SETLEASE F_RDLCK", fd(func(fd int) string { return value(unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_RDLCK)) })},
	{"fcntl F_SETLEASE F_WRLCK", fd(func(fd int) string { return value(unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_WRLCK)) })},
	{"fcntl F_SETFL O_APPEND", fd(func(fd int) string { return value(unix.FcntlInt(uintptr(fd), unix.F_SETFL, unix.O_APPEND)) })},
	{"fcntl F_SETFL O_DIRECT", fd(func(fd int) string { return value(unix.FcntlInt(uintptr(fd), unix.F_SETFL, unix.O_DIRECT)) })},
	{"fcntl F_ADD_SEALS", fd(func(fd int) string { return value(unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SEAL)) })},
	{"epoll_ctl", fd(func(fd int) string {
		e, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
		if err != nil {
			return result(err)
		}
		defer unix.Close(e)
		return result(unix.EpollCtl(e, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN}))
	})},
	{"poll", fd(func(fd int) string {
		p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN | unix.POLLOUT}}
		_, err := unix.Poll(p, 0)
		return fmt.Sprintf("%#x %s", p[0].Revents, result(err))
	})},
	{"inotify_add_watch", onPath("", func(p string) error {
		fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		_, err = unix.InotifyAddWatch(fd, p, unix.IN_ALL_EVENTS)
		return err
	})},
	{"name_to_handle_at", onPath("", func(p string) error { _, _, err := unix.NameToHandleAt(unix.AT_FDCWD, p, 0); return err })},
	{"statfs: length of names, read-only, no room", func(n target) string {
		var st unix.Statfs_t
		if err := unix.Statfs(n.path, &st); err != nil {
			return result(err)
		}
		return fmt.Sprintf("%d, %t, %t", st.Namelen, st.Flags&unix.ST_RDONLY != 0, st.Bavail == 0)
	}},
	{"execve", onFile(onPath("", func(p string) error { return unix.Faccessat2(unix.AT_FDCWD, p, unix.X_OK, unix.AT_EACCESS) }))},
	{"mount of something over it", onPath("", func(p string) error {
		err := unix.Mount("none", p, "no-such-type", 0, "")
		return err
	})},
	{"umount", onPath("/", func(p string) error { // of what is no mount point, or is busy
		fd, err := unix.Open(p, unix.O_RDONLY, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return unix.Unmount(p, unix.UMOUNT_NOFOLLOW)
	})},
	{"socket: bind", onPath("/new", func(p string) error {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		dir, err := unix.Open(filepath.Dir(p), unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(dir)
		return unix.Bind(fd, &unix.SockaddrUnix{Name: fmt.Sprintf("/proc/self/fd/%d/new", dir)}) // a path may be too long
	})},
}
