package share_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/internal/testmount"
	"github.com/pipefs/pipefs/l3gpu/internal/sim/fakecuda"
)

func TestMain(m *testing.M) { os.Exit(testmount.Main(m)) }

// pictures writes a dataset of several kinds, a directory per class, and returns their
// names in views, without extensions.
func pictures(t *testing.T) (dir string, names []string) {
	t.Helper()
	dir = t.TempDir()
	for name, p := range map[string]draw.Image{
		"cats/rgb": image.NewRGBA(image.Rect(0, 0, 70, 41)), "cats/alpha": image.NewNRGBA(image.Rect(0, 0, 33, 50)),
		"dogs/grey": image.NewGray(image.Rect(0, 0, 65, 41)), "dogs/deep": image.NewGray16(image.Rect(0, 0, 20, 90)),
	} {
		alpha := uint16(0xffff)
		if name == "cats/alpha" {
			alpha = 0x8080
		}
		for y := range p.Bounds().Dy() {
			for x := range p.Bounds().Dx() {
				p.Set(x, y, color.NRGBA64{R: uint16(x * 999), G: uint16(y * 1500), B: uint16(x * y * 20), A: alpha})
			}
		}
		var b bytes.Buffer
		testenv.Must(t, png.Encode(&b, p))
		testenv.Must(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755))
		testenv.Must(t, os.WriteFile(filepath.Join(dir, name+".png"), b.Bytes(), 0o644))
		names = append(names, name)
	}
	slices.Sort(names) // the first two have 8 bits
	return dir, names
}

// trainer is testdata/client.py, with the modules that the mount shows.
type trainer struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
	log bytes.Buffer // what it said besides
}

func newTrainer(t *testing.T, mnt string, env []string) *trainer {
	t.Helper()
	python := os.Getenv("PYTHON")
	if python == "" {
		python = "/usr/bin/python3"
	}
	c := &trainer{t: t, cmd: exec.Command(python, "testdata/client.py")}
	c.cmd.Env = append(append(os.Environ(), env...), "PYTHONDONTWRITEBYTECODE=1", "OMP_NUM_THREADS=1", "PIPEFS_GPU_SOCKET=",
		"PYTHONPATH="+filepath.Join(mnt, ".pipefs", "gpu"), "PIPEFS_TEST_MNT="+mnt)
	c.cmd.Stderr = &c.log
	var err error
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := c.cmd.StdoutPipe()
	testenv.Must(t, err)
	c.out = bufio.NewScanner(out)
	testenv.Must(t, c.cmd.Start())
	t.Cleanup(c.kill)
	return c
}

func (c *trainer) kill() {
	_ = c.cmd.Process.Kill()
	_ = c.cmd.Wait()
}

// answer is what became of a command.
type answer struct{ Error, Says string }

func (c *trainer) ask(command string, names ...string) (a answer) {
	c.t.Helper()
	fmt.Fprintln(c.in, command, strings.Join(names, " "))
	if !c.out.Scan() {
		_ = c.cmd.Wait()
		c.t.Fatalf("%s: the process ended (PyTorch is in python3-torchvision)\n%s", command, c.log.String())
	}
	if err := json.Unmarshal(c.out.Bytes(), &a); err != nil {
		c.t.Fatalf("%s: %v: %s\n%s", command, err, c.out.Text(), c.log.String())
	}
	return a
}

func (c *trainer) does(command string, names ...string) {
	c.t.Helper()
	if a := c.ask(command, names...); a != (answer{}) {
		c.t.Fatalf("%s: %+v\n%s", command, a, c.log.String())
	}
}

func (c *trainer) refuses(kind, says, command string, names ...string) {
	c.t.Helper()
	if a := c.ask(command, names...); a.Error != kind || !strings.Contains(a.Says, says) {
		c.t.Fatalf("%s: %+v, want %s: %s\n%s", command, a, kind, says, c.log.String())
	}
}

// TestMount has real processes open memory of a real mount: on the library in the place of
// libcuda, but for that all of it is what runs on a GPU.
func TestMount(t *testing.T) {
	dataset, names := pictures(t)
	library, launches := fakecuda.Library(t)
	env := append(testmount.Home(t), library...)
	mnt, unmount := testmount.MountOnce(t, env, dataset, "--gpu", "0", "--gpu-share", "2", "--gpu-memory", "32M")
	mounted := true
	defer func() {
		if mounted {
			unmount()
		}
	}()

	first := newTrainer(t, mnt, library)
	first.does("check", names...)
	first.does("dataset")
	if launches.Load() == 0 {
		t.Error("nothing was decoded on the GPU")
	}
	if out := testmount.Command(t, env, "stats", mnt); !strings.Contains(out, "gpu share") || !strings.Contains(out, "slots in use") {
		t.Errorf("stats:\n%s", out)
	}

	// One that releases nothing gets no more than its own, and others go on.
	second := newTrainer(t, mnt, library)
	first.does("open")
	second.does("open")
	for range 3 {
		first.does("hold", names[0])
	}
	first.refuses("SlotsError", "all 3 slots of this process are in use", "hold", names[0])
	for range 5 {
		second.does("decode", names...)
	}
	first.does("twice")
	third := newTrainer(t, mnt, library)
	third.refuses("Unavailable", "2 processes share the GPU already", "open")

	// What a process had that was killed goes to the next one.
	first.does("spoil")
	first.kill()
	deadline := time.Now().Add(10 * time.Second)
	for third.ask("open") != (answer{}) {
		if time.Now().After(deadline) {
			t.Fatal("the place of a process that was killed is not given to another")
		}
		time.Sleep(20 * time.Millisecond)
	}
	for range 5 {
		third.does("decode", names...)
	}
	third.does("close")

	// A mount that ends leaves memory alone that a process has open.
	second.does("hold", names[1])
	unmount()
	mounted = false
	second.refuses("Unavailable", "the mount decodes nothing for this process", "decode", names[0])
	second.does("spoil")
}

// TestWithout wants processes to be told why the mount decodes nothing for them.
func TestWithout(t *testing.T) {
	testenv.Slow(t)
	dataset, names := pictures(t)
	env := append(testmount.Home(t), "LD_LIBRARY_PATH=")
	alone := testmount.Mount(t, env, dataset)
	c := newTrainer(t, alone, nil)
	c.refuses("Unavailable", "mount with --gpu-share N", "open")

	shared := testmount.Mount(t, env, dataset, "--gpu-share", "1")
	if _, err := os.Stat("/dev/nvidia0"); err == nil {
		t.Skip("skipped the rest: there is a GPU")
	}
	c = newTrainer(t, shared, nil)
	c.refuses("Unavailable", "no NVIDIA driver", "open")
	// It decodes by itself then, for which it would need a GPU too.
	c.refuses("DeviceError", "PyTorch", "fallback")
	c.kill() // and with it what copies the log
	if n := strings.Count(c.log.String(), "L3 pictures are decoded in this process"); n != 1 {
		t.Errorf("%d lines about it:\n%s", n, c.log.String())
	}
	if b, err := os.ReadFile(filepath.Join(shared, "l3", names[0]+".l3")); err != nil || !bytes.HasPrefix(b, []byte("LLL2")) {
		t.Errorf("%s: %v", names[0], err)
	}
}
