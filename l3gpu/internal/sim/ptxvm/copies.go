package ptxvm

// A copyAsync is a copy that was begun with cp.async: of size bytes, of which take come from src and the rest are zeros.
type copyAsync struct {
	lane, pc   int
	dst, src   uint64
	size, take int
	group      int // -1 before it is committed
}

// commitCopies makes a group of what the lanes began since their last one.
func (w *warp) commitCopies(m uint32) {
	for i := range w.copies {
		if c := &w.copies[i]; m>>c.lane&1 != 0 && c.group < 0 {
			c.group = w.groups[c.lane]
		}
	}
	for l := range lanes(m) {
		w.groups[l]++
	}
}

// finishCopies does all groups of the lanes but their last n.
func (w *warp) finishCopies(m uint32, n int) {
	pc, keep := w.pc, w.copies[:0]
	for _, c := range w.copies {
		if m>>c.lane&1 == 0 || c.group < 0 || c.group >= w.groups[c.lane]-n {
			keep = append(keep, c)
			continue
		}
		w.pc = c.pc // for what may be wrong with it
		w.value = [16]byte{}
		if c.take > 0 {
			w.locked(c.src, func() { copy(w.value[:c.take], w.memory(spGlobal, c.lane, c.src, c.take, false)) })
		}
		copy(w.memory(spShared, c.lane, c.dst, c.size, true), w.value[:c.size])
	}
	w.pc, w.copies = pc, keep
}
