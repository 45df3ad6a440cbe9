package loader

import (
	"bytes"
	"errors"
	"os"
	"runtime"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/cgroup"
)

// Processors tells how busy the processors were while something was measured. It counts
// those that this process may use: its affinity, which a cpuset of a container or of a
// batch system sets.
type Processors struct {
	began time.Time
	ticks ticks
	known bool
	own   float64 // CPU seconds of this process
}

// Use is shares of the processors, 0 to 1; 0 where the system does not tell.
type Use struct {
	Busy float64 // in use, by whatever
	// Others is what something else used: other processes, the kernel for them, and the
	// host of a virtual machine.
	Others float64
	// Uncounted is use that cannot be attributed to anything. Since leaves it 0.
	Uncounted float64
}

// Watch begins.
func Watch() Processors {
	p := Processors{began: time.Now(), own: OwnCPU()}
	p.ticks, p.known = readTicks()
	return p
}

// Since is how busy the processors were since Watch. Used is how many CPU seconds the
// measured processes took, without this one.
func (p Processors) Since(used float64) Use {
	used += OwnCPU() - p.own
	// GOMAXPROCS includes the quota (cpu.max) of the cgroup.
	u := Use{Busy: used / (time.Since(p.began).Seconds() * float64(runtime.GOMAXPROCS(0)))}
	now, known := readTicks()
	all := now.all - p.ticks.all
	if !known || !p.known || all <= 0 {
		return Use{Busy: min(1, u.Busy)}
	}
	busy := now.busy - p.ticks.busy
	u.Busy = min(1, max(u.Busy, busy/all))
	u.Others = min(1, max(0, busy-used)/all)
	return u
}

// Mean is the mean of what was used in intervals of so many seconds.
func Mean(uses []Use, seconds []float64) (mean Use) {
	total := 0.0
	for _, s := range seconds {
		total += s
	}
	for i := range min(len(uses), len(seconds)) {
		mean.Busy += uses[i].Busy * seconds[i] / total
		mean.Others += uses[i].Others * seconds[i] / total
		mean.Uncounted += uses[i].Uncounted * seconds[i] / total
	}
	return mean
}

// ticks are seconds of single processors since the system was started.
type ticks struct{ busy, all float64 }

func readTicks() (ticks, bool) {
	b, err := os.ReadFile("/proc/stat")
	var mine unix.CPUSet
	if err != nil || unix.SchedGetaffinity(0, &mine) != nil {
		return ticks{}, false
	}
	return parseTicks(b, mine.IsSet)
}

// parseTicks reads lines such as "cpu3 USER NICE SYSTEM IDLE IOWAIT IRQ SOFTIRQ STEAL
// GUEST NICEGUEST" of some processors; guests are counted in USER as well.
func parseTicks(stat []byte, mine func(cpu int) bool) (t ticks, known bool) {
	const perSecond = 100 // USER_HZ, the same on all architectures that Go knows
	for line := range bytes.Lines(stat) {
		f := bytes.Fields(line)
		if len(f) < 9 || !bytes.HasPrefix(f[0], []byte("cpu")) {
			continue
		}
		cpu, err := strconv.Atoi(string(f[0][3:]))
		if err != nil || !mine(cpu) { // the first line has the sum, and no number
			continue
		}
		for i, word := range f[1:9] {
			n, err := strconv.ParseUint(string(word), 10, 63)
			if err != nil {
				return ticks{}, false
			}
			t.all += float64(n) / perSecond
			if i != 3 && i != 4 { // idle, and idle with a disk to wait for
				t.busy += float64(n) / perSecond
			}
		}
	}
	return t, t.all > 0
}

// Memory is about how many bytes the page cache can hold: what the system calls
// available, or what the cgroups of this process allow.
func Memory() (int64, error) {
	kilobytes, ok := cgroup.Field("/proc/meminfo", "MemAvailable:")
	if !ok {
		return 0, errors.New("/proc/meminfo does not say what is available")
	}
	free := kilobytes << 10
	if s, err := cgroup.Here(); err == nil {
		if limit, ok := s.MemoryLimit(); ok {
			free = min(free, limit)
		}
	}
	return free, nil
}

// OwnCPU is the CPU seconds of this process.
func OwnCPU() float64 {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

// OwnDisk is how many bytes this process, and those of its children that have been
// waited for, had fetched from a disk; 0 where the kernel does not count.
func OwnDisk() int64 {
	read, _ := cgroup.Field("/proc/self/io", "read_bytes:")
	return read
}
