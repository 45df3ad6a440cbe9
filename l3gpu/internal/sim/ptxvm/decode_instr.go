package ptxvm

import (
	"slices"
	"strings"
)

// decoders has the instructions that are more than arithmetic on numbers; what follows the first dot is in d.op.
// It is filled in init because call decodes instructions.
var decoders map[string]func(d *decoder) error

func init() {
	decoders = map[string]func(d *decoder) error{
		"mov": (*decoder).mov, "cvt": (*decoder).cvt, "cvta": (*decoder).cvta, "isspacep": (*decoder).isspacep,
		"setp": (*decoder).setp, "set": (*decoder).set, "selp": (*decoder).selp, "slct": (*decoder).slct,
		"lop3": (*decoder).lop3, "prmt": (*decoder).prmt, "bfi": (*decoder).bfi, "dp4a": (*decoder).dp, "dp2a": (*decoder).dp,
		"ld": (*decoder).ld, "ldu": (*decoder).ld, "st": (*decoder).store, "atom": (*decoder).atom, "red": (*decoder).atom,
		"prefetch": (*decoder).nothing, "prefetchu": (*decoder).nothing, "membar": (*decoder).nothing, "fence": (*decoder).nothing,
		"createpolicy": (*decoder).nothing, "nanosleep": (*decoder).nothing, "discard": (*decoder).nothing, "pmevent": (*decoder).nothing,
		"cp": (*decoder).cp, "bra": (*decoder).bra, "brx": (*decoder).brx, "call": (*decoder).call,
		"ret": (*decoder).ret, "exit": (*decoder).exit, "trap": (*decoder).trap, "brkpt": (*decoder).trap,
		"bar": (*decoder).bar, "barrier": (*decoder).bar, "shfl": (*decoder).shfl, "vote": (*decoder).vote,
		"match": (*decoder).match, "redux": (*decoder).redux, "activemask": (*decoder).activemask, "elect": (*decoder).elect,
	}
}

// instr decodes one statement and appends what it became.
func (d *decoder) instr(st *stmt) error {
	d.op = strings.Split(st.op, ".")
	d.in = &instr{pred: -1, pd: -1, pq: -1, pa: -1, pb: -1, opcode: st.op, class: classOf(st.op), line: st.line, text: st.text, source: st.source}
	if st.guard.kind != opNone {
		p, x, err := d.predicate(st.guard)
		if err != nil {
			return err
		}
		d.in.pred, d.in.xor = p, x
	}
	if f := decoders[d.op[0]]; f != nil {
		return f(d)
	}
	return d.arithmetic()
}

func (d *decoder) emit() error {
	d.k.code = append(d.k.code, *d.in)
	return nil
}

func (d *decoder) unknown() error { return d.errf("unknown instruction %s", d.st.op) }

func (d *decoder) nothing() error {
	d.in.run = func(*warp, *instr, uint32) {}
	return d.emit()
}

// arithmetic decodes what the tables of alu*.go have.
func (d *decoder) arithmetic() error {
	n := len(d.op) - 1
	if n < 1 {
		return d.unknown()
	}
	name, mods, typ := d.op[0], d.op[1:n], d.op[n]
	if typ == "pred" {
		return d.logic(name)
	}
	var f alu
	var ok bool
	switch {
	case strings.HasPrefix(name, "v") && len(d.op) > 3:
		f, ok = simdOp(d.op)
	case typeSize(typ) == 0:
	case name == "addc" || name == "subc" || name == "madc" || slices.Contains(mods, "cc"):
		return d.carry(name, mods, typ)
	case isFloat(typ):
		f, ok = floatOp(name, mods, typ)
	case name == "bfind":
		f, ok = bitOp(name, mods, typ)
	default:
		f, ok = intOp(name, mods, typ)
	}
	if !ok {
		return d.unknown()
	}
	return d.alu(f)
}

// alu emits arithmetic whose operands are as the opcode says.
func (d *decoder) alu(f alu) error {
	if err := d.destination(); err != nil {
		return err
	}
	if err := d.sources(f.types...); err != nil {
		return err
	}
	d.in.f1, d.in.f2, d.in.f3 = f.f1, f.f2, f.f3
	switch {
	case f.f1 != nil:
		d.in.run = run1
	case f.f2 != nil:
		d.in.run = run2
	case f.f3 != nil:
		d.in.run = run3
	default:
		return d.unknown()
	}
	return d.emit()
}

// logic is and, or, xor, not, mov of predicates: masks of lanes.
func (d *decoder) logic(name string) error {
	n := 3
	if name == "not" || name == "mov" {
		n = 2
	}
	if len(d.st.args) != n {
		return d.errf("%d operands instead of %d", len(d.st.args), n)
	}
	var err error
	if d.in.pd, _, err = d.predicate(d.st.args[0]); err != nil {
		return err
	}
	if d.in.pa, d.in.pax, err = d.predicate(d.st.args[1]); err != nil {
		return err
	}
	if n == 3 {
		if d.in.pb, d.in.pbx, err = d.predicate(d.st.args[2]); err != nil {
			return err
		}
	}
	f := func(a, _ uint32) uint32 { return a }
	switch name {
	case "and":
		f = func(a, b uint32) uint32 { return a & b }
	case "or":
		f = func(a, b uint32) uint32 { return a | b }
	case "xor":
		f = func(a, b uint32) uint32 { return a ^ b }
	case "not":
		f = func(a, _ uint32) uint32 { return ^a }
	case "mov":
	default:
		return d.unknown()
	}
	d.in.run = func(w *warp, in *instr, m uint32) {
		w.setPred(in.pd, m, f(w.pred(in.pa)^in.pax, w.pred(in.pb)^in.pbx))
	}
	return d.emit()
}

// carry is add.cc, addc, sub.cc, subc, mad.cc, madc. The carry is a bit of each lane.
func (d *decoder) carry(name string, mods []string, typ string) error {
	in := strings.HasSuffix(name, "c") // the name's c, not that of .cc
	name = strings.TrimSuffix(name, "c")
	out := len(mods) > 0 && mods[len(mods)-1] == "cc"
	if out {
		mods = mods[:len(mods)-1]
	}
	size := typeSize(typ)
	if size < 4 || isFloat(typ) || name != "mad" && len(mods) > 0 {
		return d.unknown()
	}
	f := alu{types: []string{typ, typ}}
	var product func(a, b uint64) uint64
	if name == "mad" {
		m, ok := multiply("mul", mods, typ)
		if !ok || m.wide {
			return d.unknown()
		}
		f.types = append(f.types, typ)
		product = m.f2
	}
	if err := d.destination(); err != nil {
		return err
	}
	if err := d.sources(f.types...); err != nil {
		return err
	}
	mask := sizeMask(size)
	d.in.run = func(w *warp, i *instr, m uint32) {
		for l := range lanes(m) {
			a, b := w.regs[i.a+l], w.regs[i.b+l]
			if name == "mad" {
				a = product(a, b)
				b = w.regs[i.c+l]
			}
			c := uint64(0)
			if in {
				c = uint64(w.cc >> l & 1)
			}
			var carry bool
			var r uint64
			if name == "sub" {
				r = (a - b - c) & mask
				carry = a < b || a-b < c
			} else {
				r = (a + b + c) & mask
				carry = r < a || c == 1 && r == a
			}
			w.regs[i.dst+l] = r
			if out {
				w.cc &^= 1 << l
				if carry {
					w.cc |= 1 << l
				}
			}
		}
	}
	return d.emit()
}
