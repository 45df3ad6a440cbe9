package share

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pipefs/pipefs/l3gpu/internal/sim/devicetest"
	"github.com/pipefs/pipefs/transcode"
)

// TestSlots wants a client that releases nothing to be told so, and others to go on.
func TestSlots(t *testing.T) {
	b := newBench(t, 2, devicetest.Options{}, Options{})
	path := b.add(transcode.ModeRGB, 40, 30)
	greedy, other := b.open(), b.open()
	var held []Reply
	for range SlotsEach {
		held = append(held, greedy.decode(path))
	}
	seen := map[string]bool{}
	for i, r := range held {
		seen[string(r.Handle)] = true
		if i > 0 && r.Generation <= held[i-1].Generation {
			t.Errorf("generation %d after %d", r.Generation, held[i-1].Generation)
		}
	}
	if len(seen) != SlotsEach {
		t.Errorf("%d handles", len(seen))
	}
	refused := greedy.want(Request{Op: OpDecode, Paths: []string{path}, Layout: "HWC"}, KindSlots)
	if !strings.Contains(refused.Error, "all 3 slots of this process are in use") || refused.Fatal {
		t.Errorf("%+v", refused)
	}
	for range 2 * SlotsEach {
		r := other.decode(path)
		if seen[string(r.Handle)] {
			t.Fatal("one client was given the memory of another")
		}
		other.want(Request{Op: OpRelease, Slot: r.Slot, Generation: r.Generation}, "")
	}
	if s := b.Stats(); s.Clients != 2 || s.Slots != SlotsEach {
		t.Errorf("%+v", s)
	}
	for _, wrong := range []Request{
		{Slot: 0}, {Slot: -1, Generation: held[0].Generation}, {Slot: SlotsEach, Generation: held[0].Generation},
		{Slot: held[1].Slot, Generation: held[0].Generation},
	} {
		wrong.Op = OpRelease
		greedy.want(wrong, KindRequest)
	}
	release := Request{Op: OpRelease, Slot: held[1].Slot, Generation: held[1].Generation}
	greedy.want(release, "")
	greedy.want(release, KindRequest)
	if again := greedy.decode(path); again.Slot != held[1].Slot || !bytes.Equal(again.Handle, held[1].Handle) || again.Generation == held[1].Generation {
		t.Errorf("%+v after %+v", again, held[1])
	}
	greedy.want(Request{Op: OpClose}, "")
	other.want(Request{Op: OpClose}, "")
}

// TestSeats wants one client more than there are seats to be refused, a seat that was
// given back to be given out, and one whose process may still use it to be kept.
func TestSeats(t *testing.T) {
	b := newBench(t, 2, devicetest.Options{}, Options{})
	path := b.add(transcode.ModeRGB, 40, 30)
	first, second := b.open(), b.open()
	handle := first.decode(path).Handle
	open := Request{Op: OpOpen, PID: os.Getpid()}
	r := b.dial().want(open, KindFull)
	if !r.Fatal || !strings.Contains(r.Error, "--gpu-share 3") || !strings.Contains(r.Error, fmt.Sprint(os.Getpid())) {
		t.Errorf("%+v", r)
	}
	b.dial().want(open, KindFull)
	if n := strings.Count(b.log.String(), "may not share the GPU"); n != 1 {
		t.Errorf("%d lines about it:\n%s", n, b.log)
	}
	first.want(Request{Op: OpClose}, "")
	third := b.open()
	if got := third.decode(path).Handle; !bytes.Equal(got, handle) {
		t.Error("the memory of a seat was not used again")
	}
	third.want(Request{Op: OpClose}, "")
	// The end of a connection says nothing about the process, which is this one.
	second.decode(path)
	second.conn.Close()
	b.open().want(Request{Op: OpClose}, "")
	time.Sleep(50 * time.Millisecond)
	if s := b.Stats(); s.Clients != 1 || s.Slots != 1 {
		t.Errorf("the memory of a process that is there was given away: %+v", s)
	}
	if err := b.Close(); err != nil || !strings.Contains(b.log.String(), "still have memory of the GPU open") {
		t.Errorf("%v; log:\n%s", err, b.log)
	}
	if left := b.seats.all[1].slots; left[0].tensor == nil {
		t.Error("memory was freed that another process may have open")
	}
}

// TestClose wants all memory back where every client said that it has nothing open, and
// the end of what is under way.
func TestClose(t *testing.T) {
	b := newBench(t, 2, devicetest.Options{}, Options{})
	path := b.add(transcode.ModeRGB, 40, 30)
	waiting, c := b.open(), b.open()
	c.decode(path)
	c.want(Request{Op: OpClose}, "")
	b.hold = make(chan struct{})
	waiting.send(Request{Op: OpDecode, Paths: []string{path}, Layout: "HWC"})
	time.Sleep(20 * time.Millisecond)
	began := time.Now()
	if err := b.Close(); err != nil || time.Since(began) > 3*time.Second {
		t.Errorf("%v after %v", err, time.Since(began))
	}
	if _, err := waiting.r.ReadByte(); err == nil {
		t.Error("a reply after the end")
	}
	if slices.ContainsFunc(b.seats.all[1].slots[:], func(s slot) bool { return s.tensor != nil }) {
		t.Error("memory was not given back")
	}
}
