package share

import (
	"sync"

	"github.com/pipefs/pipefs/l3gpu"
)

// seats are those of all clients.
type seats struct {
	mu  sync.Mutex
	all []*seat
}

// seat is the place of one client. The goroutines of that client use it; seats.mu guards
// the fields that say so.
type seat struct {
	n     int
	pid   int  // of who has it; guarded
	taken bool // guarded
	inUse int  // slots; guarded
	slots [SlotsEach]slot
}

// slot is a piece of the GPU's memory.
type slot struct {
	tensor     *l3gpu.Tensor // nil until it is needed
	handle     l3gpu.Handle
	generation uint64 // of the batch that its client has; 0: none
}

func newSeats(n int) *seats {
	s := new(seats)
	for i := range n {
		s.all = append(s.all, &seat{n: i})
	}
	return s
}

// take returns a seat, or the processes that have them all.
func (s *seats) take(pid int) (_ *seat, pids []int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, seat := range s.all {
		if !seat.taken {
			seat.taken, seat.pid = true, pid
			return seat, nil
		}
		pids = append(pids, seat.pid)
	}
	return nil, pids
}

// give gives a seat back. No process may be able to use its memory, or have it open.
func (s *seats) give(seat *seat) {
	for i := range seat.slots {
		seat.slots[i].generation = 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	seat.taken, seat.inUse = false, 0
}

// use notes how many slots of a seat are in use.
func (s *seats) use(seat *seat) {
	n := 0
	for i := range seat.slots {
		if seat.slots[i].generation != 0 {
			n++
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	seat.inUse = n
}

func (s *seats) count() (clients, slots int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, seat := range s.all {
		if seat.taken {
			clients++
			slots += seat.inUse
		}
	}
	return clients, slots
}

// free frees the memory of all seats that nobody has taken, and returns how many are taken.
// No seat may be taken afterwards.
func (s *seats) free() (left int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, seat := range s.all {
		if seat.taken {
			left++
			continue
		}
		for i := range seat.slots {
			if t := seat.slots[i].tensor; t != nil {
				_ = t.Free() // a GPU that fails has nothing but errors
			}
			seat.slots[i] = slot{}
		}
	}
	return left
}

// empty returns a slot without a batch, or nil.
func (s *seat) empty() *slot {
	for i := range s.slots {
		if s.slots[i].generation == 0 {
			return &s.slots[i]
		}
	}
	return nil
}

// number of a slot.
func (s *seat) number(of *slot) int {
	for i := range s.slots {
		if &s.slots[i] == of {
			return i
		}
	}
	return -1
}

// prepare makes a slot that is not there yet.
func (s *slot) prepare(gpu *l3gpu.Backend, size int64) error {
	if s.tensor != nil {
		return nil
	}
	t, err := gpu.NewTensor(size)
	if err != nil {
		return err
	}
	if s.handle, err = t.Export(); err != nil {
		_ = t.Free()
		return err
	}
	s.tensor = t
	return nil
}
