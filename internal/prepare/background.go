// Package prepare does work ahead of time.
//
// A [Background] makes the files of the views that are in use, and keeps them in the
// overlay of a mount, while nobody waits for anything else; it throttles itself where
// others need the machine. [Materializing] decides which samples of a store belong to a
// fraction of a view, and makes them. Package pack below this one says what a store keeps
// of a dataset.
package prepare

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/serve"
	"github.com/pipefs/pipefs/internal/source"
	"github.com/pipefs/pipefs/store"
	"github.com/pipefs/pipefs/transcode"
)

// Background prepares the views that are in use: it makes ahead of time what
// is worth keeping, when nobody is waiting for anything else.
type Background struct {
	server  *serve.Server
	log     *slog.Logger
	workers int
	ctx     context.Context
	cancel  context.CancelFunc
	wg      sync.WaitGroup
	tending sync.WaitGroup // of the overlay

	mu    sync.Mutex
	known map[string]bool
	queue chan transcode.Pipeline

	seen, prepared atomic.Int64
	view           atomic.Pointer[string] // being prepared
	patience       time.Duration          // how long Close waits
}

// maxViews bounds the views that are remembered as used.
const maxViews = 256

// Options of Start.
type Options struct {
	// Views prepares each view that is used, if the server keeps what is made.
	Views bool
	// Overlay gives back the space of what can no more be asked for; nil where there is
	// none.
	Overlay *store.Overlay
	// Workers is the number of samples made at once; 0 means one a core.
	Workers int
	Log     *slog.Logger // nil is silent
}

// Start begins to work for a server, before anybody uses it.
func Start(s *serve.Server, o Options) *Background {
	b := &Background{server: s, log: o.Log, workers: o.Workers, known: map[string]bool{}, queue: make(chan transcode.Pipeline, maxViews), patience: 5 * time.Second}
	if b.log == nil {
		b.log = slog.New(slog.DiscardHandler)
	}
	if b.workers == 0 {
		b.workers = runtime.GOMAXPROCS(0)
	}
	b.ctx, b.cancel = context.WithCancel(context.Background())
	if n, ok := s.Total(); ok {
		s.SetTotal(n)
	} else if s.CountsTotal() {
		b.wg.Go(b.countAll)
	}
	if o.Overlay != nil {
		b.tending.Go(func() { o.Overlay.Tend(b.ctx, b.current) })
	}
	if o.Views && s.Keeps() {
		s.OnUse(b.use)
		b.wg.Go(b.run)
	}
	return b
}

// Close ends the background. On a machine that is full its threads of low priority may
// take minutes to end a step: they are not waited for. What they still make is dropped.
// The overlay is not touched afterwards: for that a pack that is being sealed is waited for.
func (b *Background) Close() error {
	b.cancel()
	b.tending.Wait()
	ended := make(chan struct{})
	go func() {
		b.wg.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(b.patience):
		b.log.Info("the background is left behind in the middle of a sample")
	}
	return nil
}

// Stats is how far the preparation has come.
type Stats struct {
	View     string `json:"view"`     // being prepared; empty when idle
	Seen     int64  `json:"seen"`     // samples looked at
	Prepared int64  `json:"prepared"` // samples made
}

// Stats returns the counters.
func (b *Background) Stats() Stats {
	s := Stats{Seen: b.seen.Load(), Prepared: b.prepared.Load()}
	if view := b.view.Load(); view != nil {
		s.View = *view
	}
	return s
}

// use queues a view that is used for the first time.
func (b *Background) use(v transcode.Pipeline) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if v.Stored() || len(b.known) >= maxViews {
		return
	}
	v = v.Whole() // names make no difference
	// All fidelities are one representation.
	name := v.String()
	if first := v.Steps()[0]; v.Len() == 1 && first.Kind.Split != nil {
		name = first.Kind.Name
	}
	if !b.known[name] {
		b.known[name] = true
		b.queue <- v
	}
}

func (b *Background) run() {
	for {
		select {
		case <-b.ctx.Done():
			return
		case v := <-b.queue:
			name := v.String()
			b.view.Store(&name)
			started := time.Now()
			b.prepare(v)
			b.view.Store(nil)
			if b.ctx.Err() == nil {
				b.log.Info("view prepared", "view", name, "seconds", time.Since(started).Seconds())
			}
		}
	}
}

// prepare walks the tree in listing order, on as many workers as there are.
func (b *Background) prepare(v transcode.Pipeline) {
	paths := make(chan string, 64)
	var workers sync.WaitGroup
	throttle := newThrottle()
	for range b.workers {
		workers.Go(func() {
			lowPriority()
			for name := range paths {
				started := time.Now()
				b.sample(name, v)
				b.sleep(throttle.rest(time.Since(started)))
			}
		})
	}
	registry := b.server.Registry()
	b.walk(func(name string) {
		if !registry.IsSample(name) {
			return
		}
		select {
		case paths <- name:
		case <-b.ctx.Done():
		}
	})
	close(paths)
	workers.Wait()
}

// countAll tells the cache's policy how many files there are.
func (b *Background) countAll() {
	lowPriority()
	files := 0
	b.walk(func(string) { files++ })
	if b.ctx.Err() == nil {
		b.server.SetTotal(files)
	}
}

// walk calls f for each file, in listing order.
func (b *Background) walk(f func(name string)) {
	for name, err := range source.Files(b.server.List) {
		switch {
		case b.ctx.Err() != nil:
			return
		case err != nil:
			b.log.Warn("the background leaves a directory out", "path", name, "cause", err)
		default:
			f(name)
		}
	}
}

// sleep waits, unless the background is to end.
func (b *Background) sleep(d time.Duration) {
	if d <= 0 {
		return
	}
	select {
	case <-b.ctx.Done():
	case <-time.After(d):
	}
}

// giveWay waits while readers wait for the server.
func (b *Background) giveWay() {
	for b.server.Busy() && b.ctx.Err() == nil {
		b.sleep(2 * time.Millisecond)
	}
}

// current is [serve.Server.Current], which looks at a file, without being in a reader's way.
func (b *Background) current(path string, src store.Identity, key string) bool {
	b.giveWay()
	return b.server.Current(path, src, key)
}

// sample makes what is worth keeping of one sample. What goes wrong is left to
// the reader who will ask for it: it may never be asked for.
func (b *Background) sample(name string, v transcode.Pipeline) {
	if b.giveWay(); b.ctx.Err() != nil {
		return
	}
	b.seen.Add(1)
	attr, err := b.server.Stat(name, false)
	if err != nil {
		return
	}
	kept, err := b.server.Prepare(b.ctx, serve.File{Path: name, Identity: attr.Identity}, v)
	if kept {
		b.prepared.Add(1)
	}
	if err != nil && b.ctx.Err() == nil {
		b.log.Debug("sample left out of the preparation", "sample", name, "cause", err)
	}
}

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
// time in which the background works halves with every look; while cores are idle,
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
