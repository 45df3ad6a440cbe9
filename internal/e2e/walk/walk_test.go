package walk

import (
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/mounts"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/internal/testmount"
	"github.com/pipefs/pipefs/store/blob"
)

// patience is how long a call may take, on a busy machine.
const patience = 30 * time.Second

// walk is a mount, and who walks it.
type walk struct {
	t *testing.T
	config
	env                           []string
	home                          string // of caches
	dataset, store, mnt, log, url string
	expected                      string
	group                         string // of control groups; "" is none of its own
	paths                         []string
	bucket                        blob.Objects
	uploaded                      map[string]string
	readers                       []*readerProcess
	pending                       sync.WaitGroup // operations of readers
	history                       *history
	have                          map[string]int  // the version of each file of the dataset
	edited                        map[string]bool // what a refresh will show
	away, filled                  bool
	kills, ends                   int
	reads                         atomic.Int64
	down                          struct{ begin, end atomic.Int64 } // when the mount was ended last, and made again
	failed                        atomic.Pointer[failure]
}

// failure is what ended a walk.
type failure struct {
	op  int // its place in the list
	err error
}

// readerProcess is a reader, as the walk sees it.
type readerProcess struct {
	w     *walk
	cmd   *exec.Cmd
	in    io.WriteCloser
	enc   *gob.Encoder
	dec   *gob.Decoder
	queue chan queued
	ended chan struct{}
	mu    sync.Mutex // one question at a time
	slots [slots]openFile
}

type queued struct {
	i int
	Op
}

// openFile is what a reader has open: since when, and what it may be.
type openFile struct {
	path       string
	begin, end int64
}

func newWalk(t *testing.T, c config) *walk {
	t.Helper()
	w := &walk{t: t, config: c, env: testmount.Home(t), have: map[string]int{}, edited: map[string]bool{}, history: newHistory(edited)}
	w.expected, w.paths = expectedTree(t)
	for _, name := range edited {
		w.have[name] = 0
	}
	dir := t.TempDir()
	w.dataset, w.store = filepath.Join(dir, "dataset"), filepath.Join(dir, "store")
	w.mnt, w.log = filepath.Join(dir, "mnt"), filepath.Join(dir, "log")
	testenv.Must(t, os.Mkdir(w.mnt, 0o755))
	testenv.Must(t, exec.Command("cp", "-a", originals(0), w.dataset).Run())
	if c.full {
		w.home = t.TempDir()
		testenv.Must(t, unix.Mount("none", w.home, "tmpfs", 0, "size=24m"))
		t.Cleanup(func() { _ = unix.Unmount(w.home, unix.MNT_DETACH) })
		w.env = append(w.env, "XDG_CACHE_HOME="+w.home)
	}
	if c.small {
		limit := int64(160 << 20)
		if testmount.Raced(t) {
			limit *= 5
		}
		w.group, _ = testmount.MemoryGroup(t, limit)
	}
	if c.source == "bucket" {
		w.openBucket()
	}
	if c.source == "store" || c.source == "beside" {
		testenv.Must(t, w.command("pack", w.dataset, w.store))
	}
	testenv.Must(t, w.mount())
	for range readers {
		w.readers = append(w.readers, w.startReader())
	}
	return w
}

func (w *walk) startReader() *readerProcess {
	p := &readerProcess{w: w, cmd: exec.Command("/proc/self/exe", "reader"), queue: make(chan queued, 16), ended: make(chan struct{})}
	p.cmd.Stderr = os.Stderr
	in, err := p.cmd.StdinPipe()
	testenv.Must(w.t, err)
	out, err := p.cmd.StdoutPipe()
	testenv.Must(w.t, err)
	testenv.Must(w.t, p.cmd.Start())
	p.in, p.enc, p.dec = in, gob.NewEncoder(in), gob.NewDecoder(out)
	testenv.Must(w.t, p.enc.Encode(task{Mount: w.mnt, Expected: w.expected, Modes: w.source != "bucket", Locks: w.supervised}))
	go func() {
		defer close(p.ended)
		for q := range p.queue {
			if w.failed.Load() == nil {
				seen, err := p.ask(q.Op)
				if err == nil {
					err = p.judge(q.Op, seen)
				}
				w.fail(q.i, q.Op, err)
			}
			w.pending.Done()
		}
	}()
	return p
}

// ask has a reader do an operation.
func (p *readerProcess) ask(o Op) (seen observation, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.enc.Encode(o); err != nil {
		return seen, fmt.Errorf("the reader is gone: %w", err)
	}
	tooLong := time.AfterFunc(patience, func() {
		p.w.fail(-1, o, fmt.Errorf("no answer for %v:%s", patience, waiting()))
		_ = p.cmd.Process.Kill() // it would be for ever
	})
	defer tooLong.Stop()
	if err := p.dec.Decode(&seen); err != nil {
		return seen, fmt.Errorf("the reader is gone: %w", err)
	}
	return seen, nil
}

func (w *walk) fail(i int, o Op, err error) {
	if err != nil {
		w.failed.CompareAndSwap(nil, &failure{i, fmt.Errorf("%s: %w", o, err)})
	}
}

func (o observation) String() string {
	if o.Errno != 0 {
		return unix.ErrnoName(o.Errno)
	}
	return fmt.Sprintf("what equals %b", o.Equal)
}

// wrong says what is wrong with a file of the mount.
func wrong(path, format string, args ...any) error {
	return &fs.PathError{Op: "walk", Path: path, Err: fmt.Errorf(format, args...)}
}

// anywhere is versions in each of the views that a path may be of.
func anywhere(versionBits uint64) uint64 { return versionBits | versionBits<<versions }

// judge says whether a reader may have seen what it saw.
func (p *readerProcess) judge(o Op, seen observation) error {
	if seen.Idle {
		return nil
	}
	p.w.reads.Add(max(1, seen.Reads))
	f := openFile{o.Path, seen.Begin, seen.End}
	switch o.Do {
	case "open":
		p.slots[o.Slot] = f
	case "whole", "stat", "statx", "access", "list":
	default:
		f = p.slots[o.Slot]
	}
	if seen.Wrong != "" {
		return wrong(f.path, "%s", seen.Wrong)
	}
	if down := p.w.down.begin.Load(); down != 0 && seen.End >= down && (p.w.down.end.Load() < down || f.begin <= p.w.down.end.Load()) {
		switch seen.Errno {
		case unix.ENOTCONN, unix.ECONNABORTED, unix.ENOENT, unix.EIO, unix.ESTALE, errBus:
			return nil // the mount was ended
		}
	}
	if o.Do == "list" {
		return p.judgeList(o, seen)
	}
	at := p.w.history.between(source(f.path), f.begin, f.end) // when it was opened
	until := p.w.history.between(source(f.path), f.begin, seen.End)
	switch seen.Errno {
	case 0:
		if at.torn || o.Do == "access" && at.versions != 0 || o.Do == "open" && at.versions != 0 || drawn(f.path) && at.versions != 0 {
			return nil
		}
		if seen.Equal&anywhere(at.versions) == 0 {
			return wrong(f.path, "what was read equals %b of the versions; it had %+v", seen.Equal, at)
		}
		return nil
	case unix.ENOENT:
		if at.absent || at.torn {
			return nil
		}
	case unix.ESTALE, errBus:
		if until.changed {
			return nil
		}
	case unix.EIO:
		if at.torn {
			return nil
		}
	}
	return wrong(f.path, "%s; it had %+v", seen, until)
}

// judgeList: a list has all names that were there all the time, and none that never was.
func (p *readerProcess) judgeList(o Op, seen observation) error {
	lived := func(name string) shown {
		return p.w.history.between(source(o.Path+"/"+name), seen.Begin, seen.End)
	}
	if seen.Errno != 0 {
		gone, changed := true, false // the directory is away; a listing that a daemon began is not known to the next one
		for _, name := range edited {
			at := lived(strings.TrimPrefix(name, "live/"))
			gone, changed = gone && at.absent, changed || at.changed
		}
		if strings.HasSuffix(o.Path, "/live") && (gone && seen.Errno == unix.ENOENT || changed && seen.Errno == unix.ESTALE) {
			return nil
		}
		return wrong(o.Path, "%s", seen)
	}
	listed := map[string]bool{}
	for _, name := range seen.Names {
		listed[name] = true
	}
	for _, path := range p.w.paths {
		name, ok := strings.CutPrefix(path, o.Path+"/")
		if !ok || strings.Contains(name, "/") {
			if ok {
				delete(listed, name[:strings.Index(name, "/")])
			}
			continue
		}
		at := lived(name)
		if listed[name] && at.versions == 0 && !at.torn || !listed[name] && !at.absent && !at.torn {
			return wrong(o.Path+"/"+name, "is listed: %t; it had %+v", listed[name], at)
		}
		delete(listed, name)
	}
	for name := range listed {
		return wrong(o.Path+"/"+name, "is listed, and never was")
	}
	return nil
}

// run walks, and returns what was wrong.
func (w *walk) run(ops []Op) *failure {
	for i, o := range ops {
		if w.failed.Load() != nil {
			break
		}
		if o.Who == world {
			w.fail(i, o, w.do(o))
			continue
		}
		w.pending.Add(1)
		w.readers[o.Who].queue <- queued{i, o}
	}
	w.pending.Wait()
	return w.failed.Load()
}

// close ends the walk: nothing is left of it.
func (w *walk) close() error {
	var err error
	for _, p := range w.readers {
		close(p.queue)
		<-p.ended
		p.in.Close()
		if e := p.cmd.Wait(); e != nil {
			err = errors.Join(err, fmt.Errorf("a reader: %w", e))
		}
	}
	err = errors.Join(err, w.unmount())
	if w.group != "" {
		for _, name := range []string{"memory.events", "memory.oom_control"} {
			if events, _ := os.ReadFile(filepath.Join(w.group, name)); strings.Contains(string(events), "oom_kill ") && !strings.Contains(string(events), "oom_kill 0\n") {
				err = errors.Join(err, fmt.Errorf("a daemon was killed: %s", events))
			}
		}
	}
	if out, e := exec.Command("pgrep", "-f", w.mnt+"$").Output(); e == nil {
		err = errors.Join(err, fmt.Errorf("processes are left: %s", out))
	}
	if at, e := mounts.At(w.mnt); at != nil || e != nil {
		err = errors.Join(err, fmt.Errorf("it is still mounted: %+v, %w", at, e), w.command("umount", "--force", w.mnt))
	}
	log, e := os.ReadFile(w.log)
	if bad := testmount.Bad(log); bad != "" {
		err = errors.Join(err, fmt.Errorf("the log:\n%s", bad))
	}
	return errors.Join(err, e)
}

// unmount ends the mount. umount gives up after 30 seconds, which a daemon that gets no processor may need to
// end: one that is there two minutes later hangs, and tells where.
func (w *walk) unmount() error {
	pid, err := w.pid()
	if err != nil {
		return err
	}
	parent := parentOf(pid)
	err = w.command("umount", w.mnt)
	if err == nil || !strings.Contains(err.Error(), "has not ended within") {
		return err
	}
	w.t.Logf("waited on: %v; threads that wait in the kernel: %s", err, waiting())
	for deadline := time.Now().Add(2 * time.Minute); alive(pid) || alive(parent); time.Sleep(time.Second) {
		if time.Now().After(deadline) {
			stacks := ""
			if syscall.Kill(pid, syscall.SIGQUIT) == nil {
				for range 100 {
					if time.Sleep(100 * time.Millisecond); !alive(pid) {
						break
					}
				}
				log, _ := os.ReadFile(w.log)
				stacks = string(log[max(0, len(log)-100_000):])
			}
			return fmt.Errorf("%w, nor within two minutes after that:\n%s", err, stacks)
		}
	}
	return nil
}

// TestWalk walks mounts of all kinds.
func TestWalk(t *testing.T) {
	testenv.Mounts(t)
	seed := testenv.Seed(t)
	configs := []string{
		"directory page supervised", "directory daemon supervised full", "store page supervised", "bucket daemon supervised",
		"directory page", "directory daemon small", "store daemon", "beside page supervised",
	}
	var reads, kills, ends int64
	for i, name := range configs {
		t.Run(name, func(t *testing.T) {
			c := parseConfig(name)
			if c.full || c.small {
				testenv.Root(t)
			}
			w := newWalk(t, c)
			r := rand.New(rand.NewPCG(seed, uint64(i)))
			var walked []Op
			for range 5 {
				ops := generate(r, c, w.paths, edited, 1450)
				f := w.run(ops)
				if f == nil {
					walked = append(walked, ops...)
					continue
				}
				if err := w.close(); err != nil {
					t.Log(err)
				}
				if f.op >= 0 {
					ops = ops[:f.op+1]
				}
				t.Fatalf("%v\n%s", f.err, shrink(t, c, ops, append(walked, ops...), f.err))
			}
			testenv.Must(t, w.close())
			reads, kills, ends = reads+w.reads.Load(), kills+int64(w.kills), ends+int64(w.ends)+1
		})
	}
	t.Logf("%d reads and other calls, %d daemons killed under supervision, %d mounts ended", reads, kills, ends)
	testenv.Proved(t, "reads", reads)
	testenv.Proved(t, "ended", ends)
}
