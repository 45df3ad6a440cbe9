package conn

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/testenv"
)

// BenchmarkRequest makes requests that cost next to nothing to answer: what remains is the
// way of a request. Of the allocations of a read one is this file system's. go-fuse is its
// own server with the same file system.
func BenchmarkRequest(b *testing.B) {
	for _, server := range []string{"go-fuse", "pipefs"} {
		dir, stop := benchServer(b, server)
		file, st := filepath.Join(dir, "1"), new(unix.Statx_t)
		for name, request := range map[string]func(fd int, buf []byte){
			"getattr": func(int, []byte) {
				_ = unix.Statx(unix.AT_FDCWD, file, unix.AT_STATX_FORCE_SYNC, unix.STATX_SIZE, st)
			},
			"read-4k":   func(fd int, buf []byte) { _, _ = unix.Pread(fd, buf[:4096], 0) },
			"read-256k": func(fd int, buf []byte) { _, _ = unix.Pread(fd, buf[:256<<10], 0) },
		} {
			b.Run(name+"/"+server, func(b *testing.B) {
				fd, err := unix.Open(file, unix.O_RDONLY|unix.O_CLOEXEC, 0)
				testenv.Must(b, err)
				defer unix.Close(fd)
				buf := make([]byte, 256<<10)
				b.ReportAllocs()
				for b.Loop() {
					request(fd, buf)
				}
			})
		}
		stop()
	}
}

func benchServer(b *testing.B, server string) (dir string, stop func()) {
	f := newTestFS()
	f.kept = true
	ended := make(chan struct{})
	if server == "go-fuse" {
		dir = b.TempDir()
		s, err := fuse.NewServer(f, dir, &fuse.MountOptions{DirectMount: true, MaxWrite: maxPayload, DisableSplice: true, Name: "pipefs", Options: []string{fmt.Sprint("max_read=", maxPayload)}})
		testenv.Must(b, err)
		go func() { s.Serve(); close(ended) }()
		testenv.Must(b, s.WaitMount())
	} else {
		var fd int
		dir, fd = attachTest(b)
		c, err := Start(fd, f, Options{})
		testenv.Must(b, err)
		go func() { c.Serve(); close(ended) }()
		noPoll(b, dir)
	}
	_, err := os.Stat(filepath.Join(dir, "1"))
	testenv.Must(b, err)
	return dir, func() {
		_ = unix.Unmount(dir, unix.MNT_DETACH)
		<-ended
	}
}
