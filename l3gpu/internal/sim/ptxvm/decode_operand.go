package ptxvm

// The special registers have the first slots.
const (
	spTid = iota * 32
	spNtid
	spCtaid
	spNctaid
	spLane
	spEnd
	numSpecial = spEnd / 32
)

var special = map[string]int{"%tid.x": spTid, "%ntid.x": spNtid, "%ctaid.x": spCtaid, "%nctaid.x": spNctaid, "%laneid": spLane}

// slot returns the slot of a constant.
func (d *decoder) slot(c constant) int {
	if s, ok := d.consts[c]; ok {
		return s
	}
	s := d.newReg(8).slot
	d.consts[c] = s
	d.k.consts = append(d.k.consts, constant{slot: s, value: c.value, v: c.v})
	return s
}

func sizeMask(bytes int) uint64 {
	if bytes >= 8 {
		return ^uint64(0)
	}
	return 1<<(8*bytes) - 1
}

// src returns the slot of a source operand of a type: a register, a special one, a number or an address.
func (d *decoder) src(o operand, typ string) (int, error) {
	switch o.kind {
	case opImm:
		return d.slot(constant{value: o.val & sizeMask(typeSize(typ))}), nil
	case opName:
		if r, ok := d.register(o.name); ok {
			if r.size == 0 {
				return 0, d.errf("predicate %s as a number", o.name)
			}
			if o.off != 0 || o.not {
				return 0, d.errf("an expression of %s", o.name)
			}
			return r.slot, nil
		}
		if s, ok := special[o.name]; ok {
			return s, nil
		}
		if v := d.symbol(o.name); v != nil {
			return d.slot(constant{value: uint64(o.off), v: v}), nil
		}
		return 0, d.errf("%s is not declared", o.name)
	}
	return 0, d.errf("an operand of another sort belongs here")
}

// sources fills a, b and c from the operands after the first.
func (d *decoder) sources(types ...string) error {
	if len(d.st.args) != len(types)+1 {
		return d.errf("%d operands instead of %d", len(d.st.args), len(types)+1)
	}
	for i, p := range []*int{&d.in.a, &d.in.b, &d.in.c}[:len(types)] {
		s, err := d.src(d.st.args[i+1], types[i])
		if err != nil {
			return err
		}
		*p = s
	}
	return nil
}

// dest returns a destination register; "_" is one that nobody reads.
func (d *decoder) dest(o operand) (reg, error) {
	if o.kind != opName || o.off != 0 {
		return reg{}, d.errf("a register belongs first")
	}
	if o.name == "_" {
		return d.newReg(8), nil
	}
	r, ok := d.register(o.name)
	if !ok {
		return r, d.errf("%s is not a register", o.name)
	}
	return r, nil
}

// destination fills dst and mask.
func (d *decoder) destination() error {
	if len(d.st.args) == 0 {
		return d.errf("no operands")
	}
	r, err := d.dest(d.st.args[0])
	if err != nil {
		return err
	}
	if r.size == 0 {
		return d.errf("predicate %s as a number", d.st.args[0].name)
	}
	d.in.dst, d.in.mask = r.slot, sizeMask(r.size)
	return nil
}

// predicate returns a predicate's number and all ones where it is negated; "_" is -1.
func (d *decoder) predicate(o operand) (int32, uint32, error) {
	if o.kind == opName {
		if o.name == "_" {
			return -1, 0, nil
		}
		if r, ok := d.register(o.name); ok && r.size == 0 {
			var x uint32
			if o.not {
				x = full
			}
			return int32(r.slot), x, nil
		}
	}
	if o.kind == opImm { // a constant predicate
		r := d.newReg(0)
		d.k.code = append(d.k.code, instr{pred: -1, pd: int32(r.slot), pa: -1, pb: -1, line: d.st.line, text: d.st.text,
			run: func(w *warp, in *instr, m uint32) { w.setPred(in.pd, m, full*uint32(o.val&1)) }})
		return int32(r.slot), 0, nil
	}
	return 0, 0, d.errf("%s is not a predicate", o.name)
}

// address fills a and off from [name+off].
func (d *decoder) address(o operand) error {
	if o.kind != opAddr {
		return d.errf("an address belongs here")
	}
	d.in.off = 0
	if o.name == "" {
		d.in.a = d.slot(constant{value: uint64(o.off)})
		return nil
	}
	if r, ok := d.register(o.name); ok && r.size > 0 {
		d.in.a, d.in.off = r.slot, uint64(o.off)
		return nil
	}
	v := d.symbol(o.name)
	if v == nil {
		return d.errf("%s is not declared", o.name)
	}
	d.in.a, d.in.off = d.slot(constant{v: v}), uint64(o.off)
	return nil
}
