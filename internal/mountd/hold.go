package mountd

import (
	"fmt"
	"sync"
	"time"

	"github.com/pipefs/pipefs/internal/control"
)

// untilHeld is how long a shared mount waits for its first holder.
const untilHeld = 15 * time.Second

// holders counts those of a shared mount. The methods of nil, which is a mount that is not
// shared, do nothing.
type holders struct {
	key  string
	none chan struct{} // closed when nobody holds the mount, for good

	mu     sync.Mutex
	n      int
	ending bool
	// turn is how often somebody came or went: a timer that was set at another turn is
	// out of date.
	turn int
}

func newHolders(key string) *holders {
	if key == "" {
		return nil
	}
	return &holders{key: key, none: make(chan struct{})}
}

// gone is closed when nobody holds the mount, for good.
func (h *holders) gone() <-chan struct{} {
	if h == nil {
		return nil
	}
	return h.none
}

// hold counts one more.
func (h *holders) hold(key string, linger time.Duration) (release func(), err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case key != "" && key != h.key:
		return nil, fmt.Errorf("what is mounted there is shared, but it is another dataset, or mounted with other options or by another version of pipefs: unmount it first, or mount elsewhere")
	case h.ending:
		return nil, control.ErrEnding
	}
	h.n++
	h.turn++
	return func() { h.release(linger) }, nil
}

// count is how many hold the mount; nil where it is not shared.
func (h *holders) count() *int {
	if h == nil {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	n := h.n
	return &n
}

func (h *holders) release(linger time.Duration) {
	h.mu.Lock()
	h.n--
	h.turn++
	h.mu.Unlock()
	h.expect(linger)
}

// expect gives a holder that long to come, if there is none.
func (h *holders) expect(patience time.Duration) {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	turn := h.turn
	switch {
	case h.n > 0:
	case patience == 0:
		h.endLocked()
	default:
		time.AfterFunc(patience, func() {
			h.mu.Lock()
			defer h.mu.Unlock()
			if h.n == 0 && h.turn == turn {
				h.endLocked()
			}
		})
	}
}

// end lets nobody hold the mount from now on.
func (h *holders) end() {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.endLocked()
}

func (h *holders) endLocked() {
	if !h.ending {
		h.ending = true
		close(h.none)
	}
}
