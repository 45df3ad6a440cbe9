package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/pipefs/pipefs/internal/account"
	"github.com/pipefs/pipefs/internal/mounts"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/internal/testmount"
)

// TestFrozenDisk: the file system of a dataset does not answer: another mount, whose daemon is stopped. A mount of it blames
// the disk. It ends when it is asked to, or its daemon is killed, and then whoever waits for a file gets an error. Of the daemon
// nothing is left but the threads that wait for that file system.
func TestFrozenDisk(t *testing.T) {
	t.Parallel()
	testenv.Mounts(t)
	dataset := testmount.Generate(t, "-samples", "2", "-classes", "1")
	for how, end := range map[string]struct {
		flags  []string
		signal syscall.Signal
		gone   bool // the mount is
	}{
		"SIGTERM":            {nil, syscall.SIGTERM, true},
		"SIGKILL":            {nil, syscall.SIGKILL, false},
		"SIGTERM, supervise": {[]string{"--supervise"}, syscall.SIGTERM, true},
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			env := testmount.Home(t)
			disk := testmount.Mount(t, env, dataset, "--no-background")
			mnt := filepath.Join(t.TempDir(), "mnt")
			testenv.Must(t, os.Mkdir(mnt, 0o755))
			testmount.Command(t, env, append(append([]string{"mount", "--no-background"}, end.flags...), filepath.Join(disk, "original"), mnt)...)
			file := firstIn(t, filepath.Join(mnt, "bmp"), "*/*")
			below, daemon := statsOf(t, disk).PID, statsOf(t, mnt).PID
			testenv.Must(t, syscall.Kill(below, syscall.SIGSTOP))
			t.Cleanup(func() {
				testenv.Must(t, syscall.Kill(below, syscall.SIGCONT))
				testenv.EventuallyIs(t, "the daemon is gone", func() bool { return syscall.Kill(daemon, 0) != nil })
				if !end.gone {
					testmount.Command(t, env, "umount", mnt)
				}
			})
			reader := exec.Command("cat", file)
			testenv.Must(t, reader.Start())
			testenv.EventuallyIs(t, "the reader waits", func() bool {
				fields, err := mounts.StatFields(fmt.Sprintf("/proc/%d/stat", reader.Process.Pid))
				comm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", reader.Process.Pid))
				return err == nil && string(comm) == "cat\n" && (fields[0] == "S" || fields[0] == "D")
			})
			testenv.EventuallyIs(t, "the disk is blamed", func() bool { return slices.Equal(statsOf(t, mnt).Verdict.Culprits, []account.Culprit{account.Disk}) })
			testenv.Must(t, syscall.Kill(daemon, end.signal))
			if err := reader.Wait(); err == nil {
				t.Error("a file that could not be read has no error")
			}
			testenv.EventuallyIs(t, "the daemon has ended", func() bool { return mounts.Ended(daemon) || syscall.Kill(daemon, 0) != nil })
			if at, err := mounts.At(mnt); err != nil || (at == nil) != end.gone {
				t.Errorf("mounted: %v, %v", at, err)
			}
			testenv.Proved(t, "ended", 1)
		})
	}
}
