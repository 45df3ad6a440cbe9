package account

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/cgroup"
	"github.com/pipefs/pipefs/internal/human"
)

// idle is how long a thread is away before it counts as one that has left.
const idle = 60 * time.Second

// regular is how many requests a process has sent that reads data, and does not only look around. What it has done until
// then counts when it has sent them, or ends.
const regular = 20

// process is a process that reads. Only the sampler uses it, with the ledger's mu held.
type process struct {
	sum   Reader
	cpu   int64          // ns of the processor so far
	rchar int64          // bytes that it has read so far, of whatever
	ran   map[uint32]ran // what its threads have

	ended bool
	// own: it is a command of this program, such as warmup. It reads by goroutines: what one of its threads does meanwhile says nothing.
	own bool

	// Of the sample that is being taken.
	away, requests, bytes int64
	reading               []*thread
}

// counted is what a thread has done so far.
type counted struct {
	waited, away, requests, bytes, errors int64
	parts                                 [parts]int64
}

func (t *thread) count(now int64) counted {
	c := counted{waited: t.waited.Load(), away: t.away.Load(), requests: t.requests.Load(), bytes: t.bytes.Load(), errors: t.errors.Load()}
	for i := range c.parts {
		c.parts[i] = t.parts[i].Load()
	}
	// What is under way counts up to now.
	if since := t.since.Load(); since != 0 && t.inflight.Load() > 0 {
		c.waited += max(0, now-since)
	} else if since != 0 {
		c.away += max(0, now-since)
	}
	// It may have changed meanwhile. The next sample makes up for it.
	c.waited, c.away = max(c.waited, t.last.waited), max(c.away, t.last.away)
	return c
}

// sample looks at all threads and processes. The caller holds mu.
func (l *Ledger) sample() {
	now := l.now()
	passed := now - l.sampled
	if passed < int64(100*time.Millisecond) && l.sampled != 0 {
		return
	}
	l.sampled = now
	for _, p := range l.processes {
		p.away, p.requests, p.bytes, p.reading = 0, 0, 0, p.reading[:0]
	}
	for i := range l.threads.places {
		if t := l.threads.places[i].Load(); t != nil && l.sampleThread(t, now) {
			l.threads.places[i].Store(nil)
		}
	}
	l.sampleThread(&l.threads.others, now)
	l.quiet = 0
	for pid, p := range l.processes {
		if p.sample(time.Duration(passed)); p.ended {
			l.ended.sum.add(&p.sum, 1)
			delete(l.processes, pid)
			continue
		}
		l.quiet += p.sum.Quiet
	}
}

// sampleThread adds what a thread has done to its process. It reports whether the thread has left.
func (l *Ledger) sampleThread(t *thread, now int64) (left bool) {
	c := t.count(now)
	if c.requests == 0 && c.waited == 0 && t.group == nil {
		return false // it begins, or is nobody
	}
	if t.group == nil {
		t.group, t.active = l.processOf(t.id), now
	}
	if t.group.ended {
		t.group = &l.ended
	}
	p, last := t.group, &t.last
	if c.requests != last.requests || c.waited != last.waited {
		t.active = now
	}
	d := &p.sum
	d.Waited += c.waited - last.waited
	d.Requests += c.requests - last.requests
	d.Bytes += c.bytes - last.bytes
	d.Errors += c.errors - last.errors
	was, is := partsIn(last.parts), partsIn(c.parts)
	is.add(&was, -1)
	d.Parts.add(&is, 1)
	away := c.away - last.away
	p.requests += c.requests - last.requests
	p.bytes += c.bytes - last.bytes
	t.last = c
	idling := t.inflight.Load() == 0 && now-t.active > int64(idle)
	if p == &l.ended {
		if t.id == 0 {
			d.Unknown += away
			return idling
		}
		return t.inflight.Load() == 0
	}
	p.away += away
	p.reading = append(p.reading, t)
	for i := range t.views {
		if v := t.views[i].Load(); v != nil && len(d.Views) < len(t.views) && !slices.Contains(d.Views, v.name) {
			d.Views = append(d.Views, v.name)
		}
	}
	return idling
}

// processOf returns the process of a thread.
func (l *Ledger) processOf(id uint32) *process {
	pid, parent := 0, 0
	if id != 0 {
		pid, parent = ProcessOf(id), field(id, "status", "PPid:")
	}
	if pid == 0 || l.processes[pid] == nil && len(l.processes) >= MaxReaders {
		return &l.ended // it has ended already, or cannot be seen from here
	}
	p := l.processes[pid]
	if p == nil {
		p = &process{ran: map[uint32]ran{}}
		p.sum.PID, p.sum.Command = pid, Command(pid)
		p.own = pid != os.Getpid() && p.sum.Command == Command(os.Getpid())
		p.sum.Spawned = parent > 1 && Command(parent) == p.sum.Command || strings.HasPrefix(p.sum.Command, "pt_data_worker")
		p.cpu, p.rchar = processTime(pid), readSoFar(pid)
		l.processes[pid] = p
	}
	return p
}

// sample divides the time that a process was away.
func (p *process) sample(passed time.Duration) {
	cpu := processTime(p.sum.PID)
	if p.ended = cpu < 0; p.ended {
		return
	}
	used, delayed := cpu-p.cpu, int64(0)
	p.sum.CPU += used
	p.cpu = cpu
	if len(p.ran) > 2*len(p.reading)+8 {
		clear(p.ran)
	}
	for _, t := range p.reading {
		now, ok := scheduled(t.id)
		if !ok {
			t.active = -int64(idle) // it has ended
			continue
		}
		if before, ok := p.ran[t.id]; ok {
			used, delayed = max(used, now.cpu-before.cpu), max(delayed, now.delayed-before.delayed)
		}
		p.ran[t.id] = now
	}
	if p.away > 0 && !p.own {
		each := max(1, p.away/int64(len(p.reading)))
		used = min(used, each)
		delayed = min(delayed, each-used)
		computed := int64(float64(used) / float64(each) * float64(p.away))
		queued := int64(float64(delayed) / float64(each) * float64(p.away))
		p.sum.Computed += computed
		p.sum.Queued += queued
		p.sum.Slept += p.away - computed - queued
		if !p.sum.Spawned {
			p.sum.ComputedAlone += computed
		}
	}
	rchar := readSoFar(p.sum.PID)
	elsewhere := max(0, rchar-p.rchar-p.bytes)
	p.rchar, p.sum.Quiet = rchar, 0
	if p.sum.Cached += elsewhere; p.requests == 0 && float64(elsewhere) >= quietBytes*passed.Seconds() {
		p.sum.Quiet = 1
	}
}

// quietBytes is how many bytes a second a process reads that probably reads files.
const quietBytes = 1 << 20

func (p *process) reader() Reader {
	r := p.sum
	r.Threads, r.Views = len(p.reading), slices.Clone(r.Views)
	r.Copy = max(0, r.Waited-r.Source-r.Worker-r.Compute-r.Memory)
	return r
}

func partsOf(a *[parts]atomic.Int64) Parts {
	return Parts{Source: a[Source].Load(), Worker: a[Worker].Load(), Compute: a[Compute].Load(), Memory: a[Memory].Load()}
}

func partsIn(a [parts]int64) Parts {
	return Parts{Source: a[Source], Worker: a[Worker], Compute: a[Compute], Memory: a[Memory]}
}

// processTime is the processor time of a process in ns, -1 where it has ended.
func processTime(pid int) int64 {
	var ts unix.Timespec
	// The number of the clock of a process, as clock_getcpuclockid(3) makes it.
	if unix.ClockGettime(int32(^pid<<3|2), &ts) != nil {
		return -1
	}
	return ts.Nano()
}

// ran is how long a thread has run and waited for a core, in ns.
type ran struct{ cpu, delayed int64 }

// scheduled is what a thread has run so far; ok is false where it has ended.
func scheduled(id uint32) (r ran, ok bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/schedstat", id))
	fields := bytes.Fields(text)
	if err != nil || len(fields) < 2 {
		_, err := os.Stat(fmt.Sprintf("/proc/%d", id))
		return r, err == nil
	}
	r.cpu, _ = strconv.ParseInt(string(fields[0]), 10, 64)
	r.delayed, _ = strconv.ParseInt(string(fields[1]), 10, 64)
	return r, true
}

// readSoFar is how many bytes a process has read, of files in the page cache and pipes, too.
func readSoFar(pid int) int64 {
	return int64(field(uint32(pid), "io", "rchar:"))
}

// ProcessOf is the process of a thread; 0 is that it has ended, or cannot be seen from here.
func ProcessOf(thread uint32) (pid int) { return field(thread, "status", "Tgid:") }

// Command is the name of the program that a process runs; "" is that the process has ended. Programs choose it themselves.
func Command(pid int) string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil {
		return ""
	}
	return human.Line(strings.TrimSuffix(string(text), "\n"))
}

// field is a number in a file of a process or thread, 0 if it has ended.
func field(id uint32, file, name string) int {
	n, _ := cgroup.Field(fmt.Sprintf("/proc/%d/%s", id, file), name)
	return int(n)
}

// cores is taken before a mount lets more threads run than there are processors.
var cores = runtime.GOMAXPROCS(0)

// machine is what this machine and process have used.
func machine() Machine {
	m := Machine{Cores: cores, Idle: -1}
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) == nil {
		m.CPU = u.Utime.Nano() + u.Stime.Nano()
		m.Disk = u.Inblock * 512
	}
	if text, err := os.ReadFile("/proc/stat"); err == nil {
		if f := bytes.Fields(text[:max(0, bytes.IndexByte(text, '\n'))]); len(f) > 5 {
			idle, _ := strconv.ParseInt(string(f[4]), 10, 64)
			waiting, _ := strconv.ParseInt(string(f[5]), 10, 64)
			m.Idle = (idle + waiting) * int64(time.Second) / 100
		}
	}
	return m
}
