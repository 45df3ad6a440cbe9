package bench

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/bench/loader"
	"github.com/pipefs/pipefs/bench/views"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/internal/testmount"
)

func TestMain(m *testing.M) { os.Exit(testmount.Main(m)) }

// files lists all files under a directory.
func files(b *testing.B, dir string) (names []string) {
	b.Helper()
	err := filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			names = append(names, name)
		}
		return err
	})
	if err != nil || len(names) == 0 {
		b.Fatal("no files: ", err)
	}
	return names
}

// readers is how many threads read at once, where nothing else is said.
const readers = 2

// readAll reads every file as Pillow's callers do: open, fstat, reads of block
// bytes to the end, close. It returns the bytes read.
func readAll(b *testing.B, names []string, block int) (bytes int64) {
	b.Helper()
	return readBy(b, names, block, readers)
}

// readBy reads every file, each of the threads its share of them.
func readBy(b *testing.B, names []string, block, threads int) (bytes int64) {
	b.Helper()
	sums := make([]int64, threads)
	var all errgroup.Group
	for r := range threads {
		all.Go(func() error {
			buf := make([]byte, block)
			for i := r; i < len(names); i += threads {
				n, err := readFile(names[i], buf)
				if err != nil {
					return err
				}
				sums[r] += n
			}
			return nil
		})
	}
	testenv.Must(b, all.Wait())
	for _, n := range sums {
		bytes += n
	}
	return bytes
}

func readFile(name string, buf []byte) (n int64, err error) {
	f, err := os.Open(name)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return 0, err
	}
	for {
		m, err := f.Read(buf)
		n += int64(m)
		if m == 0 || err != nil {
			if n != st.Size() {
				return n, fmt.Errorf("%s: read %d of %d bytes: %w", name, n, st.Size(), err)
			}
			return n, nil
		}
	}
}

// evict makes the page cache forget files, as far as that is possible. Pages that were
// written lie in larger pieces than pages that were read, and copy faster. So a dataset
// that was just generated has to be evicted to be like one on the disk.
func evict(b *testing.B, names []string) {
	b.Helper()
	unix.Sync()
	testenv.Must(b, loader.Drop(names))
}

// seconds times what it is given.
func seconds(work func()) float64 {
	start := time.Now()
	work()
	return time.Since(start).Seconds()
}

// pass is one run of one side of a comparison; it returns the seconds that
// count.
type pass func() float64

// compare runs a control and pipefs in turn for each iteration and reports the
// median rate of both, for so many units of work, and the median of the ratios.
func compare(b *testing.B, unit string, amount float64, control, pipefs pass) {
	b.Helper()
	var before, after, ratios []float64
	for b.Loop() {
		c, p := control(), pipefs()
		before, after, ratios = append(before, c), append(after, p), append(ratios, c/p)
	}
	b.ReportMetric(amount/views.Median(before), unit+"/s-control")
	b.ReportMetric(amount/views.Median(after), unit+"/s-pipefs")
	b.ReportMetric(views.Median(ratios), "ratio")
}

// attach finds the daemon of a mount.
func attach(b *testing.B, mnt string) *views.Mount {
	b.Helper()
	m, err := views.AttachMount(b.Context(), testmount.Binary(b), mnt)
	testenv.Must(b, err)
	b.Cleanup(func() { _ = m.Close() })
	return m
}

// cpuOf is the seconds of the processor that a daemon has used.
func cpuOf(b *testing.B, m *views.Mount) float64 {
	b.Helper()
	seconds, err := m.CPU()
	testenv.Must(b, err)
	return seconds
}

// residentBytes is the memory of a process that is in RAM.
func residentBytes(b *testing.B, pid int) float64 {
	b.Helper()
	statm, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	testenv.Must(b, err)
	pages, _ := strconv.ParseFloat(strings.Fields(string(statm))[1], 64)
	return pages * float64(os.Getpagesize())
}

// BenchmarkAutoLoader reads auto/ with an unmodified PyTorch loader, after `pipefs tune
// --apply`: standard augmentation, 2 workers. The controls are the same pixels as plain
// PPM files, which is the most that another format can give, and the source files. The
// page cache holds all of it, except for the first epoch of auto/.
func BenchmarkAutoLoader(b *testing.B) {
	const samples = 240
	for name, every := range map[string]string{"png": "1", "jpeg": "0"} {
		dataset := testmount.Generate(b, "-samples", strconv.Itoa(samples), "-width", "500", "-height", "375", "-png-every", every)
		env := testmount.Home(b)
		store, plain := filepath.Join(b.TempDir(), "store"), filepath.Join(b.TempDir(), "plain")
		testmount.Command(b, env, "pack", "--originals", "keep", dataset, store)
		tune := exec.Command(testmount.Binary(b), "tune", "--apply", store)
		tune.Env = env
		if out, err := tune.CombinedOutput(); bytes.Contains(out, []byte("too noisy to tell")) {
			b.Skipf("auto leads nowhere:\n%s", out)
		} else if err != nil {
			b.Fatalf("%v\n%s", err, out)
		}
		testmount.Command(b, env, "export", store, "bmp", plain)
		for _, epoch := range []string{"first", "later"} {
			for control, dir := range map[string]string{"bmp": plain, "source": dataset} {
				b.Run(name+"/"+epoch+"/"+control, func(b *testing.B) {
					mnt, unmount := testmount.MountOnce(b, env, store, "--no-background")
					defer func() { unmount() }()
					auto := filepath.Join(mnt, "auto")
					if to, err := os.Readlink(auto); err == nil {
						b.Logf("auto leads to %s", to)
					}
					loaderEpoch(b, dir)
					if epoch == "later" {
						loaderEpoch(b, auto)
					}
					compare(b, "images", samples,
						func() float64 { return loaderEpoch(b, dir) },
						func() float64 {
							if epoch == "first" {
								unmount()
								mnt, unmount = testmount.MountOnce(b, env, store, "--no-background")
								auto = filepath.Join(mnt, "auto")
							}
							return loaderEpoch(b, auto)
						})
				})
			}
		}
	}
}
