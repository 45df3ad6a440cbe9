package bench

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

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

// readers is how many threads read at once.
const readers = 2

// readAll reads every file as Pillow's callers do: open, fstat, reads of block
// bytes to the end, close. It returns the bytes read.
func readAll(b *testing.B, names []string, block int) (bytes int64) {
	b.Helper()
	sums := make([]int64, readers)
	errs := make([]error, readers)
	var all sync.WaitGroup
	for r := range readers {
		all.Go(func() {
			buf := make([]byte, block)
			for i := r; i < len(names) && errs[r] == nil; i += readers {
				var n int64
				n, errs[r] = readFile(names[i], buf)
				sums[r] += n
			}
		})
	}
	all.Wait()
	for r := range readers {
		if errs[r] != nil {
			b.Fatal(errs[r])
		}
		bytes += sums[r]
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

// evict makes the page cache forget files, as far as one may ask it to. Pages that
// were written lie in larger pieces than pages that were read, and copy faster: a
// dataset that was just generated is no measure for one that lay on the disk.
func evict(b *testing.B, names []string) {
	b.Helper()
	unix.Sync()
	for _, name := range names {
		f, err := os.Open(name)
		if err != nil {
			b.Fatal(err)
		}
		err = unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
		f.Close()
		if err != nil {
			b.Fatal(err)
		}
	}
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
	b.ReportMetric(amount/median(before), unit+"/s-control")
	b.ReportMetric(amount/median(after), unit+"/s-pipefs")
	b.ReportMetric(median(ratios), "ratio")
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}

// cpuSeconds is the time that a process has used so far.
func cpuSeconds(b *testing.B, pid int) float64 {
	b.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		b.Fatal(err)
	}
	// the fields after the command's name, which may hold anything
	_, rest, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(rest)
	user, _ := strconv.ParseFloat(fields[11], 64)
	system, _ := strconv.ParseFloat(fields[12], 64)
	return (user + system) / 100 // USER_HZ
}

// ownCPU is the time that this process has used so far, in seconds.
func ownCPU(b *testing.B) float64 {
	b.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

// daemon finds the process that serves a mount.
func daemon(b *testing.B, env []string, mnt string) int {
	b.Helper()
	out := testmount.Command(b, env, "stats", "--json", mnt)
	_, rest, ok := strings.Cut(out, `"pid":`)
	if !ok {
		b.Fatalf("no pid in %s", out)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(rest[:strings.IndexAny(rest, ",}")]))
	if err != nil {
		b.Fatal(err)
	}
	return pid
}

// residentBytes is the memory of a process that is in RAM.
func residentBytes(b *testing.B, pid int) float64 {
	b.Helper()
	statm, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		b.Fatal(err)
	}
	pages, _ := strconv.ParseFloat(strings.Fields(string(statm))[1], 64)
	return pages * float64(os.Getpagesize())
}
