package control

import (
	"errors"
	"testing"
	"time"

	"github.com/pipefs/pipefs/internal/testenv"
)

func (h *Holders) isGone() bool {
	select {
	case <-h.Gone():
		return true
	default:
		return false
	}
}

func TestHolders(t *testing.T) {
	h := NewHolders("key")
	h.Expect(time.Hour)
	if _, err := h.Hold("another", 0); err == nil || errors.Is(err, ErrEnding) {
		t.Errorf("another key: %v", err)
	}
	first, err := h.Hold("key", 0)
	testenv.Must(t, err)
	second, err := h.Hold("", time.Hour)
	testenv.Must(t, err)
	first()
	second() // and the mount lingers
	if h.isGone() {
		t.Fatal("it does not wait for the next")
	}
	third, err := h.Hold("key", 0)
	testenv.Must(t, err)
	third()
	if _, err := h.Hold("key", 0); !h.isGone() || !errors.Is(err, ErrEnding) {
		t.Errorf("the last one is gone: %v, %v", h.isGone(), err)
	}
}

// A mount for which nobody comes ends, and one for which somebody came in time does not.
func TestNobodyComes(t *testing.T) {
	h := NewHolders("key")
	h.Expect(time.Nanosecond)
	testenv.EventuallyIs(t, "it ends", h.isGone)

	h = NewHolders("key")
	release, err := h.Hold("key", time.Hour)
	testenv.Must(t, err)
	h.Expect(time.Nanosecond)
	other, err := h.Hold("key", time.Nanosecond)
	testenv.Must(t, err)
	other()
	if h.isGone() {
		t.Error("it ended under a holder")
	}
	release()
	if h.isGone() {
		t.Error("a timer that is out of date ended it")
	}
	h.End()
	if NewHolders("").Gone() != nil {
		t.Error("a mount that is not shared ends")
	}
}
