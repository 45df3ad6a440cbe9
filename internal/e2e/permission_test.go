package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/internal/testmount"
)

// askedByStranger asks for a sample and reads it; without one, it reads what root has asked for.
const askedByStranger = `
import fcntl, os, sys
mnt, path = sys.argv[1:]
f = os.open(mnt + "/.pipefs/batches-" + ("theirs" if path else "ours"), os.O_RDONLY | os.O_DIRECT)
message = bytearray(b'{"v":1,"view":".draw/1/0/rrc8-npy","paths":1}\n' + path.encode() + b"\0").ljust(2048, b"\0")
if path:
    fcntl.ioctl(f, 3 << 30 | 2048 << 16 | ord("p") << 8 | 0xa2, message, True)
try:
    print("read" if b"error" not in message and len(os.pread(f, 1000, 0)) == 128 + 8 * 8 * 3 else bytes(message[:100]))
except PermissionError as e:
    print(e)
`

// TestOtherUsers: whatever a mount makes of files is hidden from users who may not read these,
// in both cache modes and though the page cache has it.
func TestOtherUsers(t *testing.T) {
	t.Parallel()
	testenv.Root(t)
	const stranger, group = 65534, 54321
	reads := func(path string, gid uint32) error {
		cmd := exec.Command("cat", path)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: stranger, Gid: gid}}
		got, err := cmd.Output()
		if err == nil {
			if want, _ := os.ReadFile(path); !bytes.Equal(got, want) {
				return fmt.Errorf("%s: other bytes", path)
			}
		}
		return err
	}
	for _, mode := range []string{"page", "daemon"} {
		t.Run(mode, func(t *testing.T) {
			dataset := filepath.Join(t.TempDir(), "dataset")
			for _, name := range []string{"open/a", "open/b", "some/a", "some/b", "hidden/a", "group/a"} {
				write(t, dataset, testenv.Picture(t, "optimised.jpg"), name+".jpg")
			}
			table := filepath.Join(t.TempDir(), "secret.csv")
			testenv.Must(t, os.WriteFile(table, []byte("path\nopen/a.jpg\n"), 0o600))
			chmod := func(name string, mode os.FileMode) { testenv.Must(t, os.Chmod(filepath.Join(dataset, name), mode)) }
			chmod("some/a.jpg", 0o600)
			chmod("hidden", 0o700)
			chmod("group/a.jpg", 0o640)
			testenv.Must(t, os.Chown(filepath.Join(dataset, "group"), 0, group))
			testenv.Must(t, os.Chown(filepath.Join(dataset, "group/a.jpg"), 0, group))
			mnt := testmount.Mount(t, testmount.Home(t), dataset, "--allow-other", "--cache", mode, "--list", table)
			testenv.Must(t, os.Chmod(filepath.Dir(filepath.Dir(mnt)), 0o755))
			testenv.Must(t, os.Chmod(filepath.Dir(mnt), 0o755))

			const view, draws = ".epoch/1/0/1/0/8/rrc8-npy/", ".draw/1/0/rrc8-npy/"
			const lists = ".pipefs/lists/bmp.txt"
			check := func(name string, gid uint32, want bool) {
				t.Helper()
				path := filepath.Join(mnt, name)
				if _, err := os.ReadFile(path); err != nil { // and it is in the page cache
					t.Fatal(err)
				}
				if err := reads(path, gid); (err == nil) != want {
					info, _ := os.Stat(path)
					t.Errorf("%s, %v: read by group %d: %v, want %t", name, info.Mode(), gid, err, want)
				}
			}
			batch := func(dir string, gid uint32, want bool) {
				t.Helper()
				for _, file := range []string{"000000.npy", "000000.labels.npy", "000000.paths.txt"} {
					check(view+dir+"/"+file, gid, want)
				}
			}
			batch("open", stranger, true)
			batch("some", stranger, false)
			batch("hidden", stranger, false)
			batch("group", stranger, false)
			batch("secret.csv", stranger, false)
			check(view+"open/index.json", stranger, true)
			check(view+"some/index.json", stranger, true)
			check(view+"hidden/index.json", stranger, false)
			check(view+"secret.csv/index.json", stranger, false)
			check(draws+"open/a.npy.draw", stranger, true)
			check(draws+"some/a.npy.draw", stranger, false)
			check(draws+"some/b.npy.draw", stranger, true)
			check(draws+"hidden/a.npy.draw", stranger, false)
			check(lists, stranger, false)
			// Samples that are asked for, of a user and of the file of another one
			asks := func(path string, want bool) {
				t.Helper()
				cmd := exec.Command("/usr/bin/python3", "-c", askedByStranger, mnt, path)
				cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: stranger, Gid: stranger}}
				if out, err := cmd.CombinedOutput(); err != nil || strings.HasPrefix(string(out), "read") != want {
					t.Errorf("%s, asked for: %s, %v, want %t", path, out, err, want)
				}
			}
			asks("open/a.jpg", true)
			asks("some/b.jpg", true)
			asks("some/a.jpg", false)
			asks("hidden/a.jpg", false)
			asks("group/a.jpg", false)
			file, err := os.Open(filepath.Join(mnt, ".pipefs/batches-ours"))
			testenv.Must(t, err)
			if reply, err := ask(file, `{"v":1,"view":".draw/1/0/rrc8-npy","paths":1}`, "hidden/a.jpg"); err != nil || reply.Samples != 1 {
				t.Errorf("%+v, %v", reply, err)
			}
			asks("", false)
			file.Close()

			// All of a kind belong to one group, whose directory does not.
			check(draws+"group/a.npy.draw", group, false)
			testenv.Must(t, os.Chown(dataset, 0, group))
			testenv.Eventually(t, func() error { return reads(filepath.Join(mnt, view+"group/000000.npy"), group) })
			batch("group", group, true)

			becomes := func(name string, want bool) {
				t.Helper()
				testenv.EventuallyIs(t, fmt.Sprintf("%s: read by another user: %t", name, want), func() bool { return (reads(filepath.Join(mnt, name), stranger) == nil) == want })
			}
			for _, open := range []bool{true, false} {
				dir, file := os.FileMode(0o700), os.FileMode(0o600)
				if open {
					dir, file = 0o755, 0o644
				}
				chmod("some/a.jpg", file)
				becomes(view+"some/000000.npy", open)
				becomes(draws+"some/a.npy.draw", open)
				chmod("hidden", dir)
				becomes(view+"hidden/000000.npy", open)
				becomes(view+"hidden/index.json", open)
				becomes(lists, open)
			}
		})
	}
}
