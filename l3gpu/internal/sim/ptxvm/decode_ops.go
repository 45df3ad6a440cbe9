package ptxvm

import "math"

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

func (d *decoder) mov() error {
	typ := d.op[len(d.op)-1]
	if err := d.nargs(2); err != nil {
		return err
	}
	src := d.st.args[1]
	switch {
	case typ == "pred":
		return d.logic("mov")
	case typeSize(typ) == 0 || len(d.op) != 2:
		return d.unknown()
	case src.kind == opVec:
		return d.pack(src.list, typ)
	}
	if err := d.destination(); err != nil {
		return err
	}
	if err := d.sources(typ); err != nil {
		return err
	}
	d.in.run = func(w *warp, in *instr, m uint32) {
		dst, a := w.lane32(in.dst), w.lane32(in.a)
		if m == full {
			*dst = *a
			return
		}
		for l := range lanes(m) {
			dst[l] = a[l]
		}
	}
	return d.emit()
}

// pack is mov.b64 %rd, {%r1, %r2}.
func (d *decoder) pack(list []operand, typ string) error {
	part := typeSize(typ) / len(list)
	if part == 0 || part > 4 {
		return d.unknown()
	}
	if err := d.destination(); err != nil {
		return err
	}
	for _, o := range list {
		s, err := d.src(o, map[int]string{1: "b8", 2: "b16", 4: "b32"}[part])
		if err != nil {
			return err
		}
		d.in.vec = append(d.in.vec, s)
	}
	d.in.size = part
	d.in.run = func(w *warp, in *instr, m uint32) {
		for l := range lanes(m) {
			var v uint64
			for i, s := range in.vec {
				v |= w.regs[s+l] & sizeMask(in.size) << (8 * in.size * i)
			}
			w.regs[in.dst+l] = v
		}
	}
	return d.emit()
}

// cvt.TO.FROM of integers, and of numbers to those of fewer digits, to the nearest.
func (d *decoder) cvt() error {
	n := len(d.op)
	if n < 3 || typeSize(d.op[n-2]) == 0 || typeSize(d.op[n-1]) == 0 {
		return d.unknown()
	}
	to, from := d.op[n-2], d.op[n-1]
	if err := d.destination(); err != nil {
		return err
	}
	if err := d.sources(from); err != nil {
		return err
	}
	ts, fs, mask := typeSize(to), typeSize(from), d.in.mask
	var f func(a uint64) uint64
	switch {
	case n == 3 && !isFloat(to) && !isFloat(from):
		f = func(a uint64) uint64 {
			if a &= sizeMask(fs); isSigned(from) {
				a = uint64(signed(a, fs))
			}
			if isSigned(to) { // extended to its register; an unsigned one ends at its type
				return uint64(signed(a, ts)) & mask
			}
			return a & sizeMask(ts)
		}
		if !isSigned(from) && !isSigned(to) {
			keep := sizeMask(min(fs, ts))
			f = func(a uint64) uint64 { return a & keep }
		}
	case d.st.op == "cvt.rn.f32.u32":
		f = func(a uint64) uint64 { return uint64(math.Float32bits(float32(uint32(a)))) }
	case d.st.op == "cvt.rn.f16.f32":
		f = func(a uint64) uint64 { return toHalf(float64(math.Float32frombits(uint32(a)))) }
	default:
		return d.unknown()
	}
	d.in.f1, d.in.run = f, run1
	return d.emit()
}

// toHalf encodes a number of 16 bits, to the nearest, of two the even one.
func toHalf(f float64) uint64 {
	const fraction, bias, infinity = 10, 15, 0x7c00
	if f != f {
		return 0x7fff
	}
	s := math.Float64bits(f) >> 63 << 15
	f = math.Abs(f)
	e := max(math.Ilogb(f), 1-bias)
	switch {
	case f == 0:
		return s
	case e > bias:
		return s | infinity
	}
	m := uint64(math.RoundToEven(math.Ldexp(f, fraction-e))) // with the leading one, unless subnormal
	return s | min(uint64(e+bias-1)<<fraction+m, infinity)
}

// firstGlobal is where global memory begins. Shared and local memory and parameters have addresses of their own, from 0.
const firstGlobal = 0x7f00 << 32

// cvta.to.global.u64: generic addresses of other spaces are not known.
func (d *decoder) cvta() error {
	if d.st.op != "cvta.to.global.u64" {
		return d.unknown()
	}
	return d.alu(one("u64", func(a uint64) uint64 { return a }))
}

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
