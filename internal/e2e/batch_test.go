package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
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

// TestAskedBatch reads samples of its own choice in one file, by several readers at once, and asks for what there is not.
func TestAskedBatch(t *testing.T) {
	t.Parallel()
	dataset := testmount.Generate(t, "-samples", "24", "-classes", "3", "-width", "64", "-height", "48")
	testenv.Must(t, os.WriteFile(filepath.Join(dataset, "class00/notes.txt"), nil, 0o644))
	const view = ".draw/7/3/rrc32-hflip-npy"
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
		var readers sync.WaitGroup
		for reader := range 4 {
			file := open(fmt.Sprint("batches-", reader), unix.O_DIRECT)
			readers.Go(func() {
				for round := range 5 {
					var chosen []string
					for i := range 7 {
						chosen = append(chosen, samples[(reader*5+round*3+i*i)%len(samples)])
					}
					reply, err := ask(file, header(view, len(chosen)), chosen...)
					data := make([]byte, reply.Bytes)
					if err != nil || reply.Samples != len(chosen) || reply.Bytes != 128+len(chosen)*32*32*3 {
						t.Errorf("%+v, %v", reply, err)
						return
					}
					if n, err := file.ReadAt(data, 0); n < len(data) {
						t.Errorf("%d of %d bytes: %v", n, len(data), err)
						return
					}
					for i, path := range chosen {
						alone, err := os.ReadFile(filepath.Join(mnt, view, strings.TrimSuffix(path, ".jpg")+".npy"))
						if err != nil || !bytes.Equal(alone[128:], data[128+i*32*32*3:][:32*32*3]) {
							t.Errorf("%s: %s has other bytes in a batch (%v)", mode, path, err)
						}
					}
				}
			})
		}
		readers.Wait()

		file := open("batches-x", unix.O_DIRECT)
		reads := func(file *os.File, want error) {
			t.Helper()
			if _, err := file.ReadAt(make([]byte, 4096), 0); !errors.Is(err, want) {
				t.Errorf("%s: a read: %v, want %v", mode, err, want)
			}
		}
		reads(file, unix.EINVAL) // nothing was asked for
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
		if n, err := file.ReadAt(make([]byte, 128+32*32*3), 0); n != 128+32*32*3 {
			t.Errorf("%s: after an error: %d bytes, %v", mode, n, err)
		}
		testenv.Must(t, os.Remove(filepath.Join(dataset, "class00/zz.jpg")))
	}
}
