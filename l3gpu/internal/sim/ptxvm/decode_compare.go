package ptxvm

// comparison returns the test of setp.
func comparison(name, typ string) func(a, b uint64) bool {
	less := lessThan(typ)
	switch name {
	case "eq":
		return func(a, b uint64) bool { return a == b }
	case "ne":
		return func(a, b uint64) bool { return a != b }
	case "lt", "lo":
		return less
	case "le", "ls":
		return func(a, b uint64) bool { return !less(b, a) }
	case "gt", "hi":
		return func(a, b uint64) bool { return less(b, a) }
	case "ge", "hs":
		return func(a, b uint64) bool { return !less(a, b) }
	}
	return nil
}

// setp.CMP.TYPE p, a, b
func (d *decoder) setp() error {
	if len(d.op) != 3 || typeSize(d.op[2]) == 0 || isFloat(d.op[2]) {
		return d.unknown()
	}
	if err := d.nargs(3); err != nil {
		return err
	}
	if d.in.cmp = comparison(d.op[1], d.op[2]); d.in.cmp == nil {
		return d.unknown()
	}
	if err := d.sources(d.op[2], d.op[2]); err != nil {
		return err
	}
	var err error
	if d.in.pd, _, err = d.predicate(d.st.args[0]); err != nil {
		return err
	}
	d.in.run = func(w *warp, in *instr, m uint32) { w.setPred(in.pd, m, w.compare(in, m)) }
	return d.emit()
}

// compare returns the lanes of m for which the test holds.
func (w *warp) compare(in *instr, m uint32) uint32 {
	var r uint32
	a, b := w.lane32(in.a), w.lane32(in.b)
	if m == full {
		for l := range 32 {
			if in.cmp(a[l], b[l]) {
				r |= 1 << l
			}
		}
		return r
	}
	for l := range lanes(m) {
		if in.cmp(a[l], b[l]) {
			r |= 1 << l
		}
	}
	return r
}

// selp.TYPE d, a, b, {!}p
func (d *decoder) selp() error {
	typ := d.op[len(d.op)-1]
	if len(d.st.args) != 4 || typeSize(typ) == 0 {
		return d.unknown()
	}
	if err := d.destination(); err != nil {
		return err
	}
	var err error
	if d.in.a, err = d.src(d.st.args[1], typ); err != nil {
		return err
	}
	if d.in.b, err = d.src(d.st.args[2], typ); err != nil {
		return err
	}
	if d.in.pa, d.in.pax, err = d.predicate(d.st.args[3]); err != nil {
		return err
	}
	d.in.run = func(w *warp, in *instr, m uint32) {
		dst, a, b := w.lane32(in.dst), w.lane32(in.a), w.lane32(in.b)
		t := w.pred(in.pa) ^ in.pax
		for l := range lanes(m) {
			if t>>l&1 != 0 {
				dst[l] = a[l]
			} else {
				dst[l] = b[l]
			}
		}
	}
	return d.emit()
}

func (d *decoder) prmt() error {
	if len(d.op) != 2 || d.op[1] != "b32" {
		return d.unknown()
	}
	return d.alu(three("b32", permute))
}

// bfi.TYPE d, a, b, at, n: a into b
func (d *decoder) bfi() error {
	typ := d.op[len(d.op)-1]
	if len(d.st.args) != 5 || typ != "b32" && typ != "b64" {
		return d.unknown()
	}
	if err := d.destination(); err != nil {
		return err
	}
	for i, t := range []string{typ, typ, "u32", "u32"} {
		s, err := d.src(d.st.args[i+1], t)
		if err != nil {
			return err
		}
		d.in.vec = append(d.in.vec, s)
	}
	size := typeSize(typ)
	d.in.run = func(w *warp, in *instr, m uint32) {
		v := in.vec
		for l := range lanes(m) {
			w.regs[in.dst+l] = insert(w.regs[v[0]+l], w.regs[v[1]+l], w.regs[v[2]+l]&255, w.regs[v[3]+l]&255, size)
		}
	}
	return d.emit()
}
