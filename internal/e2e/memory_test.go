package e2e

import (
	"bytes"
	"compress/zlib"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/pipefs/pipefs/internal/cgroup"
	"github.com/pipefs/pipefs/internal/pictures"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/internal/testmount"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/codecs"
)

// mountIn mounts a dataset by a daemon in a group, and wants none of the group to be killed.
func mountIn(t *testing.T, group string, h cgroup.Hierarchy, dataset string, args ...string) (mnt, log string) {
	t.Helper()
	env, binary := testmount.Home(t), testmount.Plain(t)
	mnt, log = filepath.Join(t.TempDir(), "mnt"), filepath.Join(t.TempDir(), "daemon.log")
	testenv.Must(t, os.Mkdir(mnt, 0o755))
	words := append([]string{"-c", `echo $$ > "$0/cgroup.procs" && exec "$@"`, group, binary, "mount", "--log-file", log}, args...)
	mount := exec.Command("sh", append(words, dataset, mnt)...)
	mount.Env = env
	if out, err := mount.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	processes := read(t, filepath.Join(group, "cgroup.procs"))
	t.Cleanup(func() {
		if now := read(t, filepath.Join(group, "cgroup.procs")); now != processes {
			t.Errorf("processes of the group: %q, and before %q", now, processes)
		}
		testmount.Command(t, env, "umount", mnt)
		events, peak := "memory.oom_control", "memory.max_usage_in_bytes"
		if h.V2 {
			events, peak = "memory.events", "memory.peak"
		}
		if told := read(t, filepath.Join(group, events)); !strings.Contains(told, "oom_kill 0\n") {
			t.Error(told)
		}
		if most, err := os.ReadFile(filepath.Join(group, peak)); err == nil {
			t.Logf("the group used %s bytes at most, its page cache among them", strings.TrimSpace(string(most)))
		}
		if lines := read(t, log); !strings.Contains(lines, "a cgroup limits memory") {
			t.Error(lines)
		}
	})
	return mnt, log
}

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	testenv.Must(t, err)
	return string(b)
}

// TestLittleMemory: a daemon that nothing was said to fits into a cgroup that allows less than the
// defaults of its caches take together, and serves an epoch of more than that: 315 MB.
func TestLittleMemory(t *testing.T) {
	t.Parallel()
	testenv.Mounts(t)
	generated := testmount.Generate(t, "-samples", "40", "-classes", "1")
	const copies = 10
	dataset := t.TempDir()
	names, err := filepath.Glob(filepath.Join(generated, "*", "*"))
	testenv.Must(t, err)
	for i := range copies {
		class := filepath.Join(dataset, fmt.Sprint("class", i))
		testenv.Must(t, os.Mkdir(class, 0o755))
		for _, name := range names {
			testenv.Must(t, os.Link(name, filepath.Join(class, filepath.Base(name))))
		}
	}
	group, h := testmount.MemoryGroup(t, 240<<20)
	mnt, _ := mountIn(t, group, h, dataset)
	view := filepath.Join(mnt, ".epoch/7/0/1/0/16/rrc512-hflip-npy")
	for k := range copies * len(names) / 16 {
		read(t, filepath.Join(view, fmt.Sprintf("%06d.npy", k)))
	}
}

// TestManyReadersWithLittleMemory: photographs that 16 readers read in several views at a time.
func TestManyReadersWithLittleMemory(t *testing.T) {
	t.Parallel()
	testenv.Mounts(t)
	photographs := testenv.Shared(t, "imagenet/*.JPEG")
	dataset := t.TempDir()
	link(t, dataset, "a", filepath.Dir(photographs[0]))
	group, h := testmount.MemoryGroup(t, 240<<20)
	mnt, _ := mountIn(t, group, h, dataset)
	var readers sync.WaitGroup
	for reader := range 16 {
		readers.Go(func() {
			if reader < 4 {
				for k := reader; k < len(photographs)/32; k += 4 {
					if _, err := os.ReadFile(filepath.Join(mnt, ".epoch/7/0/1/0/32/rrc224-hflip-npy", fmt.Sprintf("%06d.npy", k))); err != nil {
						t.Error(err)
					}
				}
				return
			}
			view := []string{"bmp", "npy", "rrc224-npy"}[reader%3]
			files, err := filepath.Glob(filepath.Join(mnt, view, "a", "*"))
			if err != nil || len(files) != len(photographs) {
				t.Errorf("%s: %d files of %d, %v", view, len(files), len(photographs), err)
			}
			for i := range files {
				if _, err := os.ReadFile(files[(i+reader*len(files)/16)%len(files)]); err != nil {
					t.Error(err)
				}
			}
		})
	}
	readers.Wait()
}

// TestPictureLargerThanMemory: a picture whose pixels do not fit into the cgroup of the daemon cannot be read; the
// daemon lives, and all else can. One that fits alone is read, whoever else reads.
func TestPictureLargerThanMemory(t *testing.T) {
	t.Parallel()
	testenv.Mounts(t)
	dataset := t.TempDir()
	write(t, dataset, zeros(t, 14000), "a/huge.png")
	write(t, dataset, zeros(t, 5000), "a/large.png")
	for seed := range 8 {
		testenv.Must(t, pictures.Write(filepath.Join(dataset, "a", fmt.Sprintf("%d.jpg", seed)), pictures.Photo(2400, 1800, uint64(seed))))
	}
	r := codecs.Default(transcode.Limits{})
	for _, how := range [][]string{nil, {"--supervise"}, {"--cache", "daemon"}} {
		t.Run(fmt.Sprint(how), func(t *testing.T) {
			group, h := testmount.MemoryGroup(t, 200<<20)
			mnt, log := mountIn(t, group, h, dataset, append(how, "--no-background", "--store-max", "0")...)
			var readers sync.WaitGroup
			for reader := range 16 {
				readers.Go(func() {
					for i := range 10 {
						spec := []string{"bmp", "npy", "resize256-npy"}[(reader+i)%3]
						name := fmt.Sprintf("%d.jpg", (reader+i)%8)
						switch i {
						case 3:
							name = "huge.png"
						case 7:
							name = "large.png"
						}
						v, _ := r.Parse(spec)
						got, err := os.ReadFile(filepath.Join(mnt, spec, "a", r.Name(v, name, transcode.Auto)))
						if name == "huge.png" {
							if !errors.Is(err, syscall.EIO) {
								t.Errorf("%s of %s: %d bytes, %v", spec, name, len(got), err)
							}
							continue
						}
						if want := expected(t, r, v, filepath.Join(dataset, "a", name)); err != nil || sha256.Sum256(got) != want {
							t.Errorf("%s of %s: %d bytes, %v", spec, name, len(got), err)
						}
					}
				})
			}
			readers.Wait()
			lines := read(t, log)
			for _, spec := range []string{"bmp", "npy", "resize256-npy"} {
				if n := strings.Count(lines, "view="+spec+" sample=a/huge.png"); n != 1 {
					t.Errorf("%d lines tell of huge.png in %s:\n%s", n, spec, lines)
				}
			}
		})
	}
}

var expectations sync.Map

// expected is the hash of a file of a view.
func expected(t *testing.T, r *transcode.Registry, v transcode.Pipeline, path string) [32]byte {
	f, _ := expectations.LoadOrStore(v.String()+path, sync.OnceValue(func() [32]byte {
		src, err := os.ReadFile(path)
		if err != nil {
			t.Error(err)
		}
		info, err := r.ProbeBytes(src)
		if err != nil {
			t.Error(err)
		}
		made, err := r.Plan(v, info, transcode.Auto).Run(t.Context(), src)
		if err != nil {
			t.Error(err)
		}
		return sha256.Sum256(made)
	}))
	return f.(func() [32]byte)()
}

// zeros is the file of a black PNG, RGB, with so many pixels on each side.
func zeros(t *testing.T, side int) []byte {
	t.Helper()
	var file, pixels bytes.Buffer
	z, err := zlib.NewWriterLevel(&pixels, 1)
	testenv.Must(t, err)
	row := make([]byte, 1+3*side)
	for range side {
		_, err := z.Write(row)
		testenv.Must(t, err)
	}
	testenv.Must(t, z.Close())
	chunk := func(kind string, data []byte) {
		data = append([]byte(kind), data...)
		file.Write(binary.BigEndian.AppendUint32(nil, uint32(len(data)-4)))
		file.Write(data)
		file.Write(binary.BigEndian.AppendUint32(nil, crc32.ChecksumIEEE(data)))
	}
	file.WriteString("\x89PNG\r\n\x1a\n")
	header := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, uint32(side)), uint32(side))
	chunk("IHDR", append(header, 8, 2, 0, 0, 0))
	chunk("IDAT", pixels.Bytes())
	chunk("IEND", nil)
	return file.Bytes()
}
