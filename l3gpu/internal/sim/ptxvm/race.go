package ptxvm

// shared is a block's shared memory.
type shared struct {
	data    []byte
	written []byte
	shadow  []shadow // for the race check
}

// A shadow is what is remembered of a byte: its last write, and its last reads by different threads: the last one, one
// by another lane of its warp, one by another warp.
type shadow struct {
	write  stamp
	reader [3]stamp
}

// A stamp is an access: tick, thread, instruction. Ticks rise from block to block, so that what a worker
// remembers of its last block is older than all of the next.
type stamp uint64

func (w *warp) stamp(lane int) stamp {
	return stamp(uint64(w.tick)<<32 | uint64(w.id*32+lane)<<21 | uint64(w.pc)&(1<<21-1))
}

func (s stamp) tick() uint32 { return uint32(s >> 32) }
func (s stamp) thread() int  { return int(s >> 21 & 1023) }
func (s stamp) pc() int      { return int(s & (1<<21 - 1)) }

// after says whether a lane has heard of an earlier access: they met since.
func (w *warp) after(lane int, s stamp) bool {
	t, thread := s.tick(), s.thread()
	if t <= w.b.before || thread == w.id*32+lane {
		return true
	}
	if thread>>5 != w.id {
		return false // warps never meet
	}
	return t < w.met || w.parted && t < w.metLane[lane][thread&31]
}

// checkRace fails if another thread accessed any of the bytes, one of both wrote, and they have not met since. Writes
// of the value that is there do no harm. w.value has what a plain write writes.
func (w *warp) checkRace(lane int, addr uint64, n int, write bool) {
	me := w.stamp(lane)
	b := &w.b.shared
	for i := range uint64(n) {
		s := &b.shadow[addr+i]
		if !w.after(lane, s.write) && !(write && b.data[addr+i] == w.value[i]) {
			w.race(lane, addr+i, s.write, "written", write)
		}
		if !write {
			if r := s.reader[0]; r != me {
				s.remember(r, me)
			}
			continue
		}
		for _, r := range s.reader {
			if !w.after(lane, r) && b.data[addr+i] != w.value[i] {
				w.race(lane, addr+i, r, "read", true)
			}
		}
		*s = shadow{write: me}
	}
}

func (s *shadow) remember(last, me stamp) {
	switch a, b := last.thread(), me.thread(); {
	case a == b:
	case a>>5 == b>>5:
		s.reader[1] = last
	default:
		s.reader[2] = last
	}
	s.reader[0] = me
}

func (w *warp) race(lane int, addr uint64, other stamp, did string, write bool) {
	does := "reads"
	if write {
		does = "writes"
	}
	w.fail(Race, lane, addr, "%s byte %#x of shared memory, %s by thread %d in line %d with no barrier between",
		does, addr, did, other.thread(), w.b.l.k.code[other.pc()].line)
}

// meet orders all that lanes of the warp did before and all that they do now.
func (w *warp) meet(m uint32) {
	w.tick++
	if m == w.alive {
		w.met, w.parted = w.tick, false
		return
	}
	if !w.parted {
		w.metLane, w.parted = [32][32]uint32{}, true
	}
	var all [32]uint32
	for l := range lanes(m) {
		for i, t := range w.metLane[l] {
			all[i] = max(all[i], t)
		}
	}
	for l := range lanes(m) {
		all[l] = w.tick
	}
	for l := range lanes(m) {
		w.metLane[l] = all
	}
}
