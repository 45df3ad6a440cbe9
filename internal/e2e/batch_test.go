package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/internal/testmount"
)

// askedCommand is _IOWR('p', 0xa2, n bytes).
func askedCommand(n int) uintptr { return 3<<30 | uintptr(n)<<16 | 'p'<<8 | 0xa2 }

// ask asks for samples by a file of batches, and returns the reply.
func ask(file *os.File, header string, paths ...string) (reply struct {
	Samples, Bytes int
	Error          string
	Never          bool
}, err error) {
	message := make([]byte, 4096)
	copy(message, header+"\n"+strings.Join(paths, "\x00")+"\x00")
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, file.Fd(), askedCommand(len(message)), uintptr(unsafe.Pointer(&message[0]))); errno != 0 {
		return reply, errno
	}
	text, _, _ := bytes.Cut(message, []byte{0})
	return reply, json.Unmarshal(text, &reply)
}

// TestAskedBatch reads samples of its own choice in one file, and asks for what there is not.
func TestAskedBatch(t *testing.T) {
	t.Parallel()
	dataset := testmount.Generate(t, "-samples", "24", "-classes", "3", "-width", "64", "-height", "48")
	testenv.Must(t, os.WriteFile(filepath.Join(dataset, "class00/notes.txt"), nil, 0o644))
	const view, size = ".draw/7/3/rrc32-hflip-npy", 32 * 32 * 3
	samples, err := filepath.Glob(filepath.Join(dataset, "class*/*.jpg"))
	testenv.Must(t, err)
	for i := range samples {
		samples[i], err = filepath.Rel(dataset, samples[i])
		testenv.Must(t, err)
	}
	for _, mode := range []string{"page", "daemon"} {
		mnt := testmount.Mount(t, testmount.Home(t), dataset, "--cache", mode, "--on-error", "black")
		open := func(name string, flags int) *os.File {
			file, err := os.OpenFile(filepath.Join(mnt, ".pipefs", name), os.O_RDONLY|flags, 0)
			testenv.Must(t, err)
			t.Cleanup(func() { file.Close() })
			return file
		}
		header := func(view string, n int) string { return fmt.Sprintf(`{"v":1,"view":%q,"paths":%d}`, view, n) }
		file := open("batches-x", unix.O_DIRECT)
		reads := func(file *os.File, want error) {
			t.Helper()
			if _, err := file.ReadAt(make([]byte, 4096), 0); !errors.Is(err, want) {
				t.Errorf("%s: a read: %v, want %v", mode, err, want)
			}
		}
		reads(file, unix.EINVAL) // nothing was asked for
		asked := open("batches-y", unix.O_DIRECT)
		reply, err := ask(asked, header(view, 7), samples[3:10]...)
		data := make([]byte, reply.Bytes)
		if err != nil || reply.Samples != 7 || len(data) != 128+7*size {
			t.Fatalf("%s: %+v, %v", mode, reply, err)
		}
		if n, err := asked.ReadAt(data, 0); n < len(data) {
			t.Errorf("%s: %d of %d bytes: %v", mode, n, len(data), err)
		}
		for i, path := range samples[3:10] {
			alone, err := os.ReadFile(filepath.Join(mnt, view, strings.TrimSuffix(path, ".jpg")+".npy"))
			if err != nil || !bytes.Equal(alone[128:], data[128+i*size:][:size]) {
				t.Errorf("%s: %s has other bytes in a batch (%v)", mode, path, err)
			}
		}
		for _, c := range []struct {
			header string
			paths  []string
			want   string
		}{
			{"", nil, "cannot be read"},
			{`{"v":2}`, nil, "version 1 of batches, not 2"},
			{header(view, 0), samples[:1], "has 0 paths"},
			{header(view, -1), samples[:1], "has -1 paths"},
			{header(view, 1<<40), samples[:1], "paths, and has"},
			{header("rrc32-npy", 1), samples[:1], "whose files stay what they are"},
			{header(view+"/class00", 1), []string{"a"}, "whose files stay what they are"},
			{header(".draw/7", 1), samples[:1], "not exist"},
			{header(".draw/7/3/rrc32-nyp", 1), samples[:1], `unknown step "nyp"`},
			{header(view, 1), []string{"class00/nowhere.jpg"}, "class00/nowhere.jpg: file does not exist"},
			{header(view, 1), []string{"../" + samples[0]}, "not exist"},
			{header(view, 1), []string{samples[0] + "/x"}, "not exist"},
			{header(view, 1), []string{"class00"}, "it is no sample"},
			{header(view, 1), []string{"class00/notes.txt"}, "it is no sample"},
			{header(".draw/7/3/hflip-npy", 1), samples[:1], "not arrays of one shape"},
		} {
			if reply, err := ask(file, c.header, c.paths...); err != nil || !strings.Contains(reply.Error, c.want) || reply.Never != (c.want == "not arrays of one shape") {
				t.Errorf("%s %v: %+v, %v, want an error that says %s", c.header, c.paths, reply, err, c.want)
			}
		}
		reads(file, unix.EINVAL)
		if _, _, errno := unix.Syscall(unix.SYS_IOCTL, file.Fd(), askedCommand(0), 0); errno != unix.EINVAL {
			t.Errorf("%s: without a message: %v", mode, errno)
		}
		dir, err := os.Open(filepath.Join(mnt, ".pipefs"))
		testenv.Must(t, err)
		t.Cleanup(func() { dir.Close() })
		if _, err := ask(dir, header(view, 1), samples[0]); !errors.Is(err, unix.ENOTTY) {
			t.Errorf("%s: of a directory: %v", mode, err)
		}
		if reply, err := ask(file, header("resize32-crop32-npy", 1), samples[0]); err != nil || reply.Samples != 1 {
			t.Errorf("%s: of a view that draws nothing: %+v, %v", mode, reply, err)
		}
		buffered := open("batches-x", 0)
		reads(buffered, unix.EINVAL) // the page cache would keep it

		// A sample that cannot be made is no black one: alone it is an error, too.
		testenv.Must(t, os.WriteFile(filepath.Join(dataset, "class00/zz.jpg"), []byte("\xff\xd8\xff\xe0 broken"), 0o644))
		if _, err := ask(file, header(view, 2), samples[0], "class00/zz.jpg"); err != nil {
			t.Error(err)
		}
		reads(file, unix.EIO)
		if reply, err := ask(file, header(view, 1), samples[0]); err != nil || reply.Samples != 1 {
			t.Errorf("%s: after an error: %+v, %v", mode, reply, err)
		}
		if n, err := file.ReadAt(make([]byte, 128+size), 0); n != 128+size {
			t.Errorf("%s: after an error: %d bytes, %v", mode, n, err)
		}
		testenv.Must(t, os.Remove(filepath.Join(dataset, "class00/zz.jpg")))
	}
}
