package testenv

import (
	"bufio"
	"encoding/binary"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// Stuck returns a process that has locked a file, was killed, and keeps the lock: a thread of it waits in
// the kernel for the answer of a FUSE mount, as those of a daemon do that is killed while it tells the
// kernel of changes. That is its first thread, or another one. The answer never comes; when the test ends,
// the mount does, and so does the process.
func Stuck(t testing.TB, lock string, first bool) (pid int) {
	t.Helper()
	dir := t.TempDir()
	fuse, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	Must(t, err)
	Must(t, unix.Mount("stuck", dir, "fuse", 0, "rootmode=40000,user_id=0,group_id=0,fd="+strconv.Itoa(fuse)))
	script := `
import fcntl, os, sys, threading
file = open(sys.argv[1], "a")
fcntl.flock(file, fcntl.LOCK_EX)
print("locked", flush=True)
if sys.argv[3] == "first":
    os.stat(sys.argv[2])
threading.Thread(target=os.stat, args=sys.argv[2:3]).start()
`
	which := "other"
	if first {
		which = "first"
	}
	cmd := exec.Command("python3", "-c", script, lock, dir, which)
	out, err := cmd.StdoutPipe()
	Must(t, err)
	Must(t, cmd.Start())
	t.Cleanup(func() {
		_ = unix.Unmount(dir, unix.MNT_DETACH)
		_ = unix.Close(fuse) // ends the connection: the thread gets an error
		_ = cmd.Wait()
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "locked\n" {
		t.Fatalf("the process that locks: %q, %v", line, err)
	}
	buf := make([]byte, 1<<17)
	const opInit = 26
	for op := uint32(opInit); op == opInit; {
		_, err := unix.Read(fuse, buf)
		Must(t, err)
		if op = binary.NativeEndian.Uint32(buf[4:]); op == opInit {
			// fuse_out_header, and a fuse_init_out of version 7.31 with nothing more.
			answer := make([]byte, 16+64)
			binary.NativeEndian.PutUint32(answer, uint32(len(answer)))
			copy(answer[8:16], buf[8:16]) // which request
			binary.NativeEndian.PutUint32(answer[16:], 7)
			binary.NativeEndian.PutUint32(answer[20:], 31)
			binary.NativeEndian.PutUint32(answer[36:], 4096) // the longest write
			_, err = unix.Write(fuse, answer)
			Must(t, err)
		}
	}
	Must(t, cmd.Process.Signal(os.Kill))
	return cmd.Process.Pid
}
