package ptxvm

import "strings"

// memoryOp reads the modifiers that ld, st and atom share and returns those it does not know, the type last.
func (d *decoder) memoryOp() (rest []string, vec int) {
	vec = 1
	for _, m := range d.op[1:] {
		base, _, sub := strings.Cut(m, "::")
		switch {
		case sub && spaceOf[base] == spGeneric: // L1::no_allocate, L2::128B, evict hints
		case spaceOf[base] != spGeneric:
			d.in.space = spaceOf[base]
		case m == "v2":
			vec = 2
		case m == "v4":
			vec = 4
		case m == "volatile" || m == "relaxed" || m == "acquire" || m == "release" || m == "acq_rel" || m == "mmio":
			d.in.strong = true
		case m == "weak" || m == "cta" || m == "gpu" || m == "sys" || m == "cluster":
		case m == "nc" || m == "ca" || m == "cg" || m == "cs" || m == "lu" || m == "cv" || m == "wb" || m == "wt":
		default:
			rest = append(rest, m)
		}
	}
	return rest, vec
}

func (d *decoder) checkMemory(rest []string, vec int) (string, error) {
	if len(rest) != 1 || typeSize(rest[0]) == 0 || typeSize(rest[0]) > 8 || typeSize(rest[0])*vec > 16 {
		return "", d.unknown()
	}
	if n := len(d.st.args); n != 2 && n != 3 { // the third is a cache policy
		return "", d.errf("%d operands instead of 2", n)
	}
	d.in.size = typeSize(rest[0])
	return rest[0], nil
}

func (d *decoder) ld() error {
	rest, vec := d.memoryOp()
	typ, err := d.checkMemory(rest, vec)
	if err != nil {
		return err
	}
	d.in.sext = isSigned(typ)
	list := []operand{d.st.args[0]}
	if vec > 1 {
		list = d.st.args[0].list
	}
	if len(list) != vec {
		return d.errf("%d destinations instead of %d", len(list), vec)
	}
	for _, o := range list {
		r, err := d.dest(o)
		if err != nil {
			return err
		}
		if r.size < d.in.size {
			return d.errf("register %s is too small", o.name)
		}
		d.in.vec = append(d.in.vec, r.slot)
		d.in.mask = sizeMask(r.size)
	}
	if err := d.address(d.st.args[1]); err != nil {
		return err
	}
	d.in.run = runLoad
	return d.emit()
}

func (d *decoder) store() error {
	rest, vec := d.memoryOp()
	typ, err := d.checkMemory(rest, vec)
	if err != nil {
		return err
	}
	list := []operand{d.st.args[1]}
	if vec > 1 {
		list = d.st.args[1].list
	}
	if len(list) != vec {
		return d.errf("%d sources instead of %d", len(list), vec)
	}
	for _, o := range list {
		s, err := d.src(o, typ)
		if err != nil {
			return err
		}
		d.in.vec = append(d.in.vec, s)
	}
	if err := d.address(d.st.args[0]); err != nil {
		return err
	}
	d.in.run = runStore
	return d.emit()
}

// atom.OP.TYPE d, [a], b{, c} and red.OP.TYPE [a], b
func (d *decoder) atom() error {
	rest, vec := d.memoryOp()
	if len(rest) == 3 && rest[1] == "noftz" {
		rest = []string{rest[0], rest[2]}
	}
	if vec != 1 || len(rest) != 2 || typeSize(rest[1]) < 2 {
		return d.unknown()
	}
	typ := rest[1]
	d.in.size = typeSize(typ)
	args := d.st.args
	d.in.dst = -1
	if d.op[0] == "atom" {
		if len(args) > 0 && args[0].name != "_" {
			if err := d.destination(); err != nil {
				return err
			}
		}
		args = args[min(1, len(args)):]
	}
	n := 2
	if rest[0] == "cas" {
		n = 3
	}
	if len(args) != n {
		return d.errf("wrong number of operands")
	}
	f, ok := atomicOp(rest[0], typ)
	if !ok {
		return d.unknown()
	}
	d.in.f3 = f
	if err := d.address(args[0]); err != nil {
		return err
	}
	var err error
	if d.in.b, err = d.src(args[1], typ); err != nil {
		return err
	}
	if d.in.c = d.in.b; n == 3 {
		if d.in.c, err = d.src(args[2], typ); err != nil {
			return err
		}
	}
	d.in.run = runAtomic
	return d.emit()
}

// atomicOp returns the new value of memory, from the old one and the operands.
func atomicOp(op, typ string) (func(old, b, c uint64) uint64, bool) {
	mask := sizeMask(typeSize(typ))
	switch op {
	case "exch":
		return func(_, b, _ uint64) uint64 { return b }, true
	case "cas":
		return func(old, b, c uint64) uint64 {
			if old == b {
				return c
			}
			return old
		}, true
	case "inc":
		return func(old, b, _ uint64) uint64 {
			if old >= b {
				return 0
			}
			return old + 1
		}, typ == "u32"
	case "dec":
		return func(old, b, _ uint64) uint64 {
			if old == 0 || old > b {
				return b
			}
			return old - 1
		}, typ == "u32"
	}
	var a alu
	var ok bool
	if isFloat(typ) {
		a, ok = floatOp(op, nil, typ)
	} else {
		a, ok = intOp(op, nil, typ)
	}
	if !ok || a.f2 == nil {
		return nil, false
	}
	return func(old, b, _ uint64) uint64 { return a.f2(old, b) & mask }, true
}

// cp is cp.async and its groups: the copy is done when it is waited for, not before, so that a forgotten wait shows.
func (d *decoder) cp() error {
	switch {
	case len(d.op) < 3 || d.op[1] != "async":
		return d.unknown()
	case d.op[2] == "commit_group":
		d.in.run = func(w *warp, _ *instr, m uint32) { w.commitCopies(m) }
		return d.emit()
	case d.op[2] == "wait_all":
		d.in.run = func(w *warp, _ *instr, m uint32) {
			w.commitCopies(m)
			w.finishCopies(m, 0)
		}
		return d.emit()
	case d.op[2] == "wait_group":
		if len(d.st.args) != 1 || d.st.args[0].kind != opImm {
			return d.unknown()
		}
		n := int(d.st.args[0].val)
		d.in.run = func(w *warp, _ *instr, m uint32) { w.finishCopies(m, n) }
		return d.emit()
	}
	if d.op[2] != "ca" && d.op[2] != "cg" || len(d.st.args) < 3 {
		return d.unknown()
	}
	// [dst], [src], bytes{, bytes to take}
	args := d.st.args
	if args[2].kind != opImm || args[2].val != 4 && args[2].val != 8 && args[2].val != 16 {
		return d.errf("a copy of other than 4, 8 or 16 bytes")
	}
	d.in.size = int(args[2].val)
	if err := d.address(args[1]); err != nil {
		return err
	}
	d.in.b = d.in.a
	srcOff := d.in.off
	if err := d.address(args[0]); err != nil {
		return err
	}
	d.in.c = d.slot(constant{value: args[2].val})
	if len(args) > 3 {
		var err error
		if d.in.c, err = d.src(args[3], "u32"); err != nil {
			return err
		}
	}
	d.in.run = func(w *warp, in *instr, m uint32) {
		w.countAccess(spGlobal, in.b, srcOff, m, in.size, false)
		for l := range lanes(m) {
			n := min(int(w.regs[in.c+l]), in.size)
			c := copyAsync{lane: l, pc: w.pc, dst: w.regs[in.a+l] + in.off, src: w.regs[in.b+l] + srcOff, size: in.size, take: n, group: -1}
			w.checkAligned(l, c.dst, in.size)
			w.checkAligned(l, c.src, in.size)
			w.copies = append(w.copies, c)
		}
	}
	return d.emit()
}
