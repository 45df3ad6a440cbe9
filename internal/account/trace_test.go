package account

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Nothing is recorded before somebody asks, nor some seconds after.
func TestOnlyWhileAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r Recorder
		defer r.Close()
		if r.On() {
			t.Error("it is on from the start")
		}
		first := r.Take(-1)
		if !r.On() || len(first.Events) > 0 {
			t.Errorf("the first: %+v", first)
		}
		spent := Spent{}
		spent.Parts[Source] = 2
		r.Waited(7, 9, &spent)
		p := r.Ended(7)
		if p.Node != 9 || p.Spent != spent || r.Ended(7) != (Pending{}) {
			t.Errorf("pending %+v", p)
		}
		r.Add(Event{Path: "a", Took: 5}, &p.Spent)
		got := r.Take(first.Next)
		if len(got.Events) != 1 || got.Next != 1 || got.Events[0].Source != 2 || got.Events[0].Copy != 3 {
			t.Errorf("got %+v", got)
		}
		time.Sleep(lease + time.Second)
		if r.On() {
			t.Error("it goes on though nobody asks")
		}
		r.Add(Event{Path: "b"}, &Spent{})
		if again := r.Take(got.Next); len(again.Events) > 0 || again.Lost > 0 {
			t.Errorf("after a pause: %+v", again)
		}
	})
}

// What does not fit is counted.
func TestLost(t *testing.T) {
	var r Recorder
	defer r.Close()
	since := r.Take(-1).Next
	const more = 100
	for i := range KeptEvents + more {
		r.Add(Event{Offset: int64(i)}, &Spent{})
	}
	got := r.Take(since)
	if got.Lost != more || len(got.Events) != MaxTaken || got.Events[0].Offset != more {
		t.Fatalf("lost %d, got %d from %d on", got.Lost, len(got.Events), got.Events[0].Offset)
	}
	n := len(got.Events)
	for got.Next < KeptEvents+more {
		got = r.Take(got.Next)
		n += len(got.Events)
		if got.Lost != 0 {
			t.Errorf("lost %d", got.Lost)
		}
	}
	if last := got.Events[len(got.Events)-1].Offset; n != KeptEvents || last != KeptEvents+more-1 {
		t.Errorf("%d events, the last is %d", n, last)
	}
}

func TestWithoutRecording(t *testing.T) {
	var r Recorder
	if n := testing.AllocsPerRun(100, func() {
		if r.On() {
			t.Error("on")
		}
		r.Waited(1, 2, &Spent{})
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func read(pid int, n int) Event {
	return Event{PID: pid, Op: "read", View: "bmp", Path: fmt.Sprintf("%03d.bmp", n), Bytes: 10, Took: int64(n)}
}

func TestOrders(t *testing.T) {
	shuffled := rand.New(rand.NewPCG(1, 2)).Perm(128)
	for _, c := range []struct {
		name   string
		order  string
		stride int
		at     func(i int) int
	}{
		{"one after the other", "sequential", 0, func(i int) int { return i }},
		{"batches of a worker", "sequential", 0, func(i int) int { return i + i/16*16 }},
		{"a rank of four", "strided", 4, func(i int) int { return 4 * i }},
		{"shuffled", "shuffled", 0, func(i int) int { return shuffled[i] }},
		{"backwards", "strided", -1, func(i int) int { return 100 - i }},
	} {
		var events []Event
		for i := range 128 { // another process that reads all
			events = append(events, read(1, i))
		}
		for i := range 30 {
			events = append(events, read(2, c.at(i)))
		}
		got := Summarize(events, 0).Order[1]
		if want := (ReadOrder{PID: 2, View: "bmp", Files: 30, Order: c.order, Stride: c.stride}); got != want {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
	if o := Summarize([]Event{read(1, 1), read(1, 2)}, 0).Order; o[0].Order != "unclear" {
		t.Errorf("of two files: %+v", o)
	}
}

func TestSummary(t *testing.T) {
	events := []Event{read(1, 5), read(1, 9), read(1, 5)}
	more := read(1, 9) // of the same file
	more.Offset = 10
	bad := Event{Op: "lookup", View: "bmp", Path: "x", Errno: 5, Took: 1}
	got := Summarize(append(events, more, bad), 3)
	want := TraceSummary{
		Requests: 5, Bytes: 40, Took: 29, Errors: 1, Lost: 3, Again: 1,
		Slowest:  []TracedFile{{Path: "bmp/009.bmp", Took: 18, Begun: 1, Bytes: 20}, {Path: "bmp/005.bmp", Took: 10, Begun: 2, Bytes: 20}, {Path: "bmp/x", Took: 1, Errors: 1}},
		Repeated: []TracedFile{{Path: "bmp/005.bmp", Took: 10, Begun: 2, Bytes: 20}},
		Order:    []ReadOrder{{PID: 1, View: "bmp", Files: 3, Order: "unclear"}},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}
