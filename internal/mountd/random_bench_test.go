package mountd

import (
	"bufio"
	"context"
	"fmt"
	"image"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/metrics"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/mounts"
	"github.com/pipefs/pipefs/internal/pictures"
	"github.com/pipefs/pipefs/internal/testenv"
)

// BenchmarkRandomView reads a new epoch of a random view in each iteration, by 1 to 8
// processes that share it. The daemon is this process, so that profiles are of it alone:
//
//	go test -run '^$' -bench RandomView -mutexprofile mutex.out ./internal/mountd
//
// It reports images/s, the CPU time of the daemon and the time that its goroutines waited
// for locks, and how often it wrote to the kernel: the replies to an image's requests.
func BenchmarkRandomView(b *testing.B) {
	// So many files that none is drawn again while the daemon remembers its last draw: it
	// would share the decode with it.
	const count, distinct, width, height = 512, 32, 500, 375
	testenv.Must(b, mounts.CheckFUSE(""))
	for _, format := range []string{"jpg", "ppm"} {
		c := benchConfig(b)
		for i := range distinct {
			file := photograph(b, format, pictures.Photo(width, height, uint64(i)))
			for j := i; j < count; j += distinct {
				testenv.Must(b, os.WriteFile(filepath.Join(c.Source, fmt.Sprintf("%03d.%s", j, format)), file, 0o644))
			}
		}
		m, err := Start(b.Context(), c, patience)
		testenv.Must(b, err)
		epoch := 0
		for _, processes := range []int{1, 2, 4, 8} {
			b.Run(fmt.Sprintf("%s/processes=%d", format, processes), func(b *testing.B) {
				readers := startReaders(b, processes)
				before := usedBy(b)
				for b.Loop() {
					readers.read(b, filepath.Join(c.Dir, ".draw", "7", fmt.Sprint(epoch), "rrc224-hflip-npy"))
					epoch++
				}
				after := usedBy(b)
				images := float64(b.N * count)
				b.ReportMetric(images/b.Elapsed().Seconds(), "images/s")
				b.ReportMetric(1e6*(after.cpu-before.cpu)/images, "daemon-µs/image")
				b.ReportMetric(1e6*(after.waited-before.waited)/images, "lock-wait-µs/image")
				b.ReportMetric(float64(after.writes-before.writes)/images, "replies/image")
			})
		}
		testenv.Must(b, m.Stop())
	}
}

// photograph is a file of a picture. Pixels that a store keeps are read as those of PPM.
func photograph(b *testing.B, format string, m *image.NRGBA) []byte {
	b.Helper()
	if format != "ppm" {
		file, err := pictures.Encode("a."+format, m)
		testenv.Must(b, err)
		return file
	}
	file := fmt.Appendf(nil, "P6\n%d %d\n255\n", m.Rect.Dx(), m.Rect.Dy())
	for i := 0; i < len(m.Pix); i += 4 {
		file = append(file, m.Pix[i:i+3]...)
	}
	return file
}

// benchConfig is a mount with directories of its own and without background work.
func benchConfig(b *testing.B) Config {
	b.Helper()
	dir := b.TempDir()
	for _, name := range []string{"ds", "mnt", "run"} {
		testenv.Must(b, os.Mkdir(filepath.Join(dir, name), 0o700))
	}
	b.Setenv("XDG_CACHE_HOME", filepath.Join(dir, "cache"))
	b.Setenv("XDG_RUNTIME_DIR", filepath.Join(dir, "run"))
	c := Default(filepath.Join(dir, "ds"), filepath.Join(dir, "mnt"))
	c.GPU.Off, c.Keep.NoBackground = true, true
	return c
}

// used is what this process has used so far.
type used struct {
	cpu, waited float64 // seconds
	writes      int64   // system calls
}

func usedBy(b *testing.B) (u used) {
	b.Helper()
	var r unix.Rusage
	testenv.Must(b, unix.Getrusage(unix.RUSAGE_SELF, &r))
	u.cpu = float64(r.Utime.Nano()+r.Stime.Nano()) / 1e9
	waited := []metrics.Sample{{Name: "/sync/mutex/wait/total:seconds"}}
	metrics.Read(waited)
	u.waited = waited[0].Value.Float64()
	text, err := os.ReadFile("/proc/self/io")
	testenv.Must(b, err)
	for line := range strings.Lines(string(text)) {
		_, _ = fmt.Sscanf(line, "syscw: %d", &u.writes)
	}
	return u
}

// readers are processes that read directories when they are told to.
type readers []reader

type reader struct {
	in  io.Writer
	out *bufio.Reader
}

// readerOf is the variable that makes a process a reader: which one, of how many.
const readerOf = "PIPEFS_TEST_READER"

func startReaders(b *testing.B, processes int) (all readers) {
	b.Helper()
	for i := range processes {
		ctx, cancel := context.WithCancel(context.Background())
		cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestReader$")
		cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d/%d", readerOf, i, processes))
		in, err := cmd.StdinPipe()
		testenv.Must(b, err)
		out, err := cmd.StdoutPipe()
		testenv.Must(b, err)
		testenv.Must(b, cmd.Start())
		b.Cleanup(func() { cancel(); _ = cmd.Wait() })
		all = append(all, reader{in, bufio.NewReader(out)})
	}
	return all
}

// read has the readers read a directory, each its share.
func (all readers) read(b *testing.B, dir string) {
	b.Helper()
	var group errgroup.Group
	for _, r := range all {
		group.Go(func() error {
			if _, err := fmt.Fprintln(r.in, dir); err != nil {
				return err
			}
			line, err := r.out.ReadString('\n')
			if err == nil && line != "read\n" {
				err = fmt.Errorf("a reader says: %s", line)
			}
			return err
		})
	}
	testenv.Must(b, group.Wait())
}

// TestReader is a reader of BenchmarkRandomView, in a process of its own.
func TestReader(t *testing.T) {
	of, ok := os.LookupEnv(readerOf)
	if !ok {
		t.Skip("a process of BenchmarkRandomView")
	}
	var which, all int
	if _, err := fmt.Sscanf(of, "%d/%d", &which, &all); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 1<<20)
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		err := readShare(lines.Text(), which, all, buf)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("read")
	}
}

// readShare reads each file of a directory whose turn it is, as RandomView does: open,
// fstat, one read, close.
func readShare(dir string, which, all int, buf []byte) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for i := which; i < len(entries); i += all {
		if err := readOnce(filepath.Join(dir, entries[i].Name()), buf); err != nil {
			return err
		}
	}
	return nil
}

func readOnce(name string, buf []byte) error {
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if n, err := unix.Read(fd, buf[:st.Size]); err != nil || int64(n) != st.Size {
		return fmt.Errorf("%s: %d of %d bytes: %w", name, n, st.Size, err)
	}
	return nil
}
