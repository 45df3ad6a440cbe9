package account

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/testenv"
)

func TestBuckets(t *testing.T) {
	for b := range buckets - 1 {
		if got := bucket(time.Duration(upTo(b))); got != b {
			t.Errorf("%d ns are in bucket %d, not %d", upTo(b), got, b)
		}
		if got := bucket(time.Duration(upTo(b) + 1)); got != b+1 {
			t.Errorf("%d ns are in bucket %d, not %d", upTo(b)+1, got, b+1)
		}
	}
	if got := bucket(24 * time.Hour); got != buckets-1 {
		t.Errorf("a day is in bucket %d", got)
	}
	if longest := time.Duration(upTo(buckets - 1)); longest < time.Minute {
		t.Errorf("the last bucket ends at %v", longest)
	}
}

// A request neither locks nor allocates.
func TestRequestsDoNotAllocate(t *testing.T) {
	l := New()
	v := l.View("bmp")
	spent := Spent{}
	spent.Parts[Source] = time.Millisecond
	if n := testing.AllocsPerRun(100, func() {
		r := l.Begin(7)
		l.Waited(7, v, &spent)
		l.End(r, v, Read, 100, false)
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
	s := v.seen()
	if s.Source != 101*int64(time.Millisecond) || s.Latency[0].Count == 0 || s.Copy != 0 {
		t.Errorf("%+v", s)
	}
}

// More threads than there are places for are counted together, and nothing is lost.
func TestManyThreads(t *testing.T) {
	l := New()
	v := l.View("bmp")
	const of, each = 3 * places, 5
	var all sync.WaitGroup
	for worker := range 4 {
		all.Go(func() {
			for i := range of * each / 4 {
				r := l.Begin(uint32(1<<30 + worker + 4*(i%(of/4))))
				l.End(r, v, Read, 10, false)
			}
		})
	}
	all.Wait()
	if s := l.Now(); len(s.Readers) != 0 || l.ended.sum.Requests != of*each || l.ended.sum.Bytes != 10*of*each {
		t.Errorf("%d readers, %+v", len(s.Readers), l.ended.sum)
	}
}

func TestShare(t *testing.T) {
	var maker, s Spent
	maker.Parts[Source], maker.Parts[Compute] = time.Second, 3*time.Second
	s.Share(&maker, 400*time.Millisecond)
	if s.Parts[Source] != 100*time.Millisecond || s.Parts[Compute] != 300*time.Millisecond {
		t.Errorf("%v", s.Parts)
	}
	s.Share(&Spent{}, time.Second) // nobody knows what it was
	var none *Spent
	none.Add(&maker)
	none.Share(&maker, time.Second)
	lap := none.Lap()
	lap.End(Source)
	if s.Parts[Source] != 100*time.Millisecond {
		t.Errorf("%v", s.Parts)
	}
}

// A reader that computes between its reads is told from one that sleeps.
func TestAway(t *testing.T) {
	for _, computes := range []bool{true, false} {
		l := New()
		v := l.View("bmp")
		runtime.LockOSThread()
		id := uint32(unix.Gettid())
		read := func() { l.End(l.Begin(id), v, Read, 1, false) }
		for range regular {
			read()
		}
		l.Now()
		before := l.Now().Reading
		until := time.Now().Add(300 * time.Millisecond)
		if computes {
			for time.Now().Before(until) {
			}
		} else {
			time.Sleep(time.Until(until))
		}
		read()
		after := l.Now()
		runtime.UnlockOSThread()
		computed, slept := after.Reading.Computed-before.Computed, after.Reading.Slept-before.Slept
		queued := after.Reading.Queued - before.Queued
		if away := computed + queued + slept; away < int64(300*time.Millisecond) || (computed+queued > slept) != computes {
			t.Errorf("computes: %v; %v computed, %v slept", computes, time.Duration(computed), time.Duration(slept))
		}
		if len(after.Readers) != 1 || after.Readers[0].PID != os.Getpid() || after.Readers[0].Requests != regular+1 {
			t.Errorf("%+v", after.Readers)
		}
	}
}

// What ended processes have done stays in the sum.
func TestEnded(t *testing.T) {
	l := New()
	v := l.View("bmp")
	reader := exec.Command("sleep", "60")
	testenv.Must(t, reader.Start())
	id := uint32(reader.Process.Pid)
	for range 30 {
		l.End(l.Begin(id), v, Read, 1000, false)
	}
	s := l.Now()
	if len(s.Readers) != 1 || s.Readers[0].Command != "sleep" || s.Readers[0].Bytes != 30000 || len(s.Readers[0].Views) != 1 {
		t.Fatalf("%+v", s.Readers)
	}
	waited := s.Reading.Waited
	testenv.Must(t, reader.Process.Kill())
	_ = reader.Wait()
	testenv.EventuallyIs(t, "it is no reader any more", func() bool { s = l.Now(); return len(s.Readers) == 0 })
	if s.Reading.Waited < waited || l.ended.sum.Bytes != 30000 {
		t.Errorf("%+v", s.Reading)
	}
}

func TestSince(t *testing.T) {
	l := New()
	v := l.View("bmp")
	read := func() { v.Read(0, 10); l.End(l.Begin(0), v, Read, 10, false) }
	read()
	before := l.Now()
	read()
	l.View("half").Read(1, 5)
	d := l.Now().Since(before)
	if len(d.Views) != 2 || d.Views[0].Reads != 1 || d.Views[0].Begun != 1 || d.Views[1].Bytes != 5 || d.Total().Bytes != 15 || d.Views[0].Quantile(0.5) == 0 {
		t.Errorf("%+v", d.Views)
	}
}

// A program chooses its name itself: it gives a terminal no orders.
func TestCommand(t *testing.T) {
	cmd := exec.Command("/usr/bin/python3", "-c", `import sys
open("/proc/self/comm", "w").write("\x1b[2Jred")
print(flush=True)
sys.stdin.read()`)
	in, err := cmd.StdinPipe()
	testenv.Must(t, err)
	out, err := cmd.StdoutPipe()
	testenv.Must(t, err)
	testenv.Must(t, cmd.Start())
	_, err = out.Read(make([]byte, 1))
	testenv.Must(t, err)
	if got := Command(cmd.Process.Pid); got != `"\x1b[2Jred"` {
		t.Error(got)
	}
	if pid := ProcessOf(uint32(cmd.Process.Pid)); pid != cmd.Process.Pid {
		t.Errorf("%d is a thread of %d", cmd.Process.Pid, pid)
	}
	testenv.Must(t, errors.Join(in.Close(), cmd.Wait()))
}

// The last minutes are kept for those who begin to watch, and no more.
func TestHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, stop := New(), make(chan struct{})
		v := l.View("bmp")
		go l.Run(stop, nil)
		time.Sleep(time.Second / 2)
		for range History + 10 {
			v.Read(0, 1000)
			time.Sleep(time.Second)
		}
		close(stop)
		synctest.Wait()
		got := l.Seconds()
		if len(got) != History || got[History/2].Files != 1 || got[History/2].Bytes != 1000 || got[1].At != got[0].At+1000 {
			t.Errorf("%d seconds, %+v", len(got), got[0])
		}
	})
}

// A process that has sent few requests does not count while it runs.
func TestRegular(t *testing.T) {
	l := New()
	v := l.View("bmp")
	reader := exec.Command("sleep", "60")
	testenv.Must(t, reader.Start())
	read := func() { l.End(l.Begin(uint32(reader.Process.Pid)), v, Read, 1000, false) }
	for range regular - 1 {
		read()
	}
	if s := l.Now(); s.Reading != (Reading{}) || len(s.Readers) != 1 {
		t.Errorf("%+v", s)
	}
	testenv.EventuallyIs(t, "what it has done counts", func() bool { // a program that starts computes first
		l.sampled = 0
		read()
		s := l.Now()
		return s.Reading.Waited > 0 && s.Reading.Slept > 0
	})
	testenv.Must(t, reader.Process.Kill())
	_ = reader.Wait()
}
