package ptxvm

// gather lets lanes wait for the others of their mask. It returns true if they need not.
func (w *warp) gather(in *instr, m uint32) bool {
	mask := w.lane32(in.members)
	uniform := true
	for l := range lanes(m) {
		if mask[l]>>l&1 == 0 {
			w.fail(BadMask, l, 0, "lane %d is not in its mask %#08x", l, mask[l])
		}
		uniform = uniform && mask[l] == mask[first(m)]
		w.waiting[l], w.members[l] = in, uint32(mask[l])
	}
	if uniform && uint32(mask[first(m)])&w.alive == m {
		w.collect(m)
		return true
	}
	w.ready &^= m
	w.release()
	return false
}

// release lets those lanes go on for which nobody is missing.
func (w *warp) release() {
	for l := range lanes(w.alive &^ w.ready) {
		in := w.waiting[l]
		if in == nil {
			continue
		}
		need := w.members[l] & w.alive
		there := uint32(0)
		for j := range lanes(need &^ w.ready) {
			if o := w.waiting[j]; o != nil && o.sort == in.sort && w.members[j] == w.members[l] {
				there |= 1 << j
			}
		}
		if there == need {
			w.collect(need)
			w.ready |= need
		}
	}
}

// collect executes the instruction that the lanes wait at.
func (w *warp) collect(m uint32) {
	var a, b, c, out [32]uint64
	for l := range lanes(m) {
		in := w.waiting[l]
		a[l], b[l], c[l] = w.regs[in.a+l], w.regs[in.b+l], w.regs[in.c+l]
		if in.pa >= 0 {
			a[l] = uint64((w.preds[in.pa] ^ in.pax) >> l & 1)
		}
	}
	in := w.waiting[first(m)]
	var p uint32
	if in.collect != nil {
		p = in.collect(m, &a, &b, &c, &out)
	}
	for l := range lanes(m) {
		o := w.waiting[l]
		if o.dst >= 0 {
			w.regs[o.dst+l] = out[l]
		}
		w.setPred(o.pd, 1<<l, p)
		w.waiting[l] = nil
	}
	if in.barrier || !w.b.l.d.opts.OnlySyncwarp {
		w.meet(m)
	}
}
