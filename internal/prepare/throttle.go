package prepare

import (
	"bytes"
	"os"
	"runtime"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// lowPriority makes the thread of the calling goroutine yield to everything else. The
// thread ends with the goroutine, and its low priority with it. Not SCHED_IDLE:
// a thread that never gets to run cannot reach the point at which the garbage
// collector may stop it, and would hold up all others.
func lowPriority() {
	const (
		whoThread = 1 // IOPRIO_WHO_PROCESS, which takes a thread id
		classIdle = 3 << 13
	)
	runtime.LockOSThread()
	tid := unix.Gettid()
	_ = unix.Setpriority(unix.PRIO_PROCESS, tid, 19)
	_, _, _ = unix.Syscall(unix.SYS_IOPRIO_SET, whoThread, uintptr(tid), classIdle)
}

// throttle says how much the background may work, so that a loader that keeps all
// cores busy does not lose one. Priority is not enough for that: where the kernel
// groups processes by session (autogroup) or by container, it counts within the
// group only, and the daemon's group has as large a share as the loader's.
//
// While the machine is full, and not with our own work alone, the share of the
// time in which the background works halves with every look; while it has room,
// it doubles.
type throttle struct {
	mu   sync.Mutex
	last usage
	duty float64 // from leastDuty to 1
}

const (
	leastDuty   = 0.01
	lookEvery   = 100 * time.Millisecond
	longestRest = time.Second
)

func newThrottle() *throttle {
	u, _ := cpuUsage()
	return &throttle{last: u, duty: 1}
}

// rest is how long to rest after having worked.
func (t *throttle) rest(worked time.Duration) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now, ok := cpuUsage(); ok && now.at.Sub(t.last.at) >= lookEvery {
		t.duty = adjust(t.duty, now.since(t.last))
		t.last = now
	}
	return min(longestRest, time.Duration(float64(worked)*(1/t.duty-1)))
}

// adjust makes the next share of the last one, given how the machine was used.
func adjust(duty float64, u usage) float64 {
	others := u.total - u.idle - u.own
	switch {
	case others <= u.total/10, u.idle >= u.total*2/5:
		return min(1, duty*2)
	case u.idle < u.total/5: // it is never quite full: cores idle between two tasks
		return max(leastDuty, duty/2)
	}
	return duty
}

// usage is the time of all cores together.
type usage struct {
	at               time.Time
	total, idle, own time.Duration // own: this process, readers' requests included
}

func (u usage) since(v usage) usage {
	return usage{at: u.at, total: u.total - v.total, idle: u.idle - v.idle, own: u.own - v.own}
}

// cpuUsage reads the usage since the machine was started.
func cpuUsage() (usage, bool) {
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return usage{}, false
	}
	u, ok := parseUsage(stat)
	var r unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &r) != nil {
		return usage{}, false
	}
	u.own = time.Duration(r.Utime.Nano() + r.Stime.Nano())
	u.at = time.Now()
	return u, ok
}

// parseUsage reads the first line of /proc/stat: cpu, then user, nice, system,
// idle, iowait, irq, softirq and steal in hundredths of a second.
func parseUsage(stat []byte) (u usage, ok bool) {
	line, _, _ := bytes.Cut(stat, []byte("\n"))
	fields := bytes.Fields(line)
	if len(fields) < 9 || string(fields[0]) != "cpu" {
		return usage{}, false
	}
	for i, field := range fields[1:9] {
		n, err := strconv.ParseInt(string(field), 10, 64)
		if err != nil {
			return usage{}, false
		}
		t := time.Duration(n) * 10 * time.Millisecond
		u.total += t
		if i == 3 || i == 4 { // idle, iowait
			u.idle += t
		}
	}
	return u, true
}
