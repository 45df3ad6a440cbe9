package control

import (
	"fmt"
	"sync"
	"time"
)

// UntilHeld is how long a shared mount waits for its first holder.
const UntilHeld = 15 * time.Second

// Holders counts those of a shared mount. The methods of nil, which is a mount that is not
// shared, do nothing.
type Holders struct {
	key  string
	none chan struct{} // closed when nobody holds the mount, for good

	mu     sync.Mutex
	n      int
	ending bool
	// turn is how often somebody came or went: a timer that was set at another turn is
	// out of date.
	turn int
}

// NewHolders counts the holders of the mount that has a key; nil where that is empty.
func NewHolders(key string) *Holders {
	if key == "" {
		return nil
	}
	return &Holders{key: key, none: make(chan struct{})}
}

// Gone is closed when nobody holds the mount, for good.
func (h *Holders) Gone() <-chan struct{} {
	if h == nil {
		return nil
	}
	return h.none
}

// Hold counts one more.
func (h *Holders) Hold(key string, linger time.Duration) (release func(), err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case key != "" && key != h.key:
		return nil, fmt.Errorf("what is mounted there is shared, but it is another dataset, or mounted with other options or by another version of pipefs: unmount it first, or mount elsewhere")
	case h.ending:
		return nil, ErrEnding
	}
	h.n++
	h.turn++
	return func() { h.release(linger) }, nil
}

// Count is how many hold the mount; nil where it is not shared.
func (h *Holders) Count() *int {
	if h == nil {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	n := h.n
	return &n
}

func (h *Holders) release(linger time.Duration) {
	h.mu.Lock()
	h.n--
	h.turn++
	h.mu.Unlock()
	h.Expect(linger)
}

// Expect gives a holder that long to come, if there is none.
func (h *Holders) Expect(patience time.Duration) {
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

// End lets nobody hold the mount from now on.
func (h *Holders) End() {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.endLocked()
}

func (h *Holders) endLocked() {
	if !h.ending {
		h.ending = true
		close(h.none)
	}
}
