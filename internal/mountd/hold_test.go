package mountd

import (
	"errors"
	"testing"
	"time"

	"github.com/pipefs/pipefs/internal/control"
	"github.com/pipefs/pipefs/internal/testenv"
)

func (h *holders) isGone() bool {
	select {
	case <-h.gone():
		return true
	default:
		return false
	}
}

func TestHolders(t *testing.T) {
	h := newHolders("key")
	h.expect(time.Hour)
	if _, err := h.hold("another", 0); err == nil || errors.Is(err, control.ErrEnding) {
		t.Errorf("another key: %v", err)
	}
	first, err := h.hold("key", 0)
	testenv.Must(t, err)
	second, err := h.hold("", time.Hour)
	testenv.Must(t, err)
	first()
	second() // and the mount lingers
	if h.isGone() {
		t.Fatal("it does not wait for the next")
	}
	third, err := h.hold("key", 0)
	testenv.Must(t, err)
	third()
	if _, err := h.hold("key", 0); !h.isGone() || !errors.Is(err, control.ErrEnding) {
		t.Errorf("the last one is gone: %v, %v", h.isGone(), err)
	}
}

// A mount for which nobody comes ends, and one for which somebody came in time does not.
func TestNobodyComes(t *testing.T) {
	h := newHolders("key")
	h.expect(time.Nanosecond)
	testenv.EventuallyIs(t, "it ends", h.isGone)

	h = newHolders("key")
	release, err := h.hold("key", time.Hour)
	testenv.Must(t, err)
	h.expect(time.Nanosecond)
	other, err := h.hold("key", time.Nanosecond)
	testenv.Must(t, err)
	other()
	if h.isGone() {
		t.Error("it ended under a holder")
	}
	release()
	if h.isGone() {
		t.Error("a timer that is out of date ended it")
	}
	h.end()
	if newHolders("").gone() != nil {
		t.Error("a mount that is not shared ends")
	}
}

// A shared mount ends by itself: Supervise returns.
func TestSuperviseShared(t *testing.T) {
	c := setUp(t)
	c.Shared = "key"
	m := start(t, c)
	client, err := control.Find(c.Dir)
	testenv.Must(t, err)
	conn, reply, err := client.Hold(t.Context(), control.Request{Key: "key"})
	testenv.Must(t, err)
	if reply.Mount != c.Dir {
		t.Errorf("%+v", reply)
	}
	ended := make(chan error, 1)
	go func() { ended <- m.Supervise(nil, true) }()
	conn.Close()
	testenv.Must(t, <-ended)
	gone(t, c.Dir)
}
