package ptxvm

import "strings"

// decoders has the instructions that are more than arithmetic on numbers. What follows the first dot is in d.op.
var decoders = map[string]func(d *decoder) error{
	"mov": (*decoder).mov, "cvt": (*decoder).cvt, "cvta": (*decoder).cvta, "setp": (*decoder).setp, "selp": (*decoder).selp,
	"prmt": (*decoder).prmt, "bfi": (*decoder).bfi, "ld": (*decoder).load, "st": (*decoder).store, "red": (*decoder).red,
	"bra": (*decoder).bra, "ret": (*decoder).exit, "exit": (*decoder).exit,
	"bar": (*decoder).syncwarp, "shfl": (*decoder).shfl, "vote": (*decoder).vote, "redux": (*decoder).redux,
}

// instr decodes one statement and appends what it became.
func (d *decoder) instr(st *stmt) error {
	d.op = strings.Split(st.op, ".")
	d.in = &instr{pred: -1, pd: -1, pa: -1, pb: -1, line: st.line, text: st.text}
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
	case typeSize(typ) == 0:
	case typ == "f32":
		f, ok = floatOp(name, mods)
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
	if err := d.nargs(n); err != nil {
		return err
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

// bra{.uni} label
func (d *decoder) bra() error {
	if len(d.st.args) != 1 || d.st.args[0].kind != opName {
		return d.unknown()
	}
	name := d.st.args[0].name
	l := d.label(name)
	if l == nil {
		return d.errf("label %s is not there", name)
	}
	d.in.kind = inBranch
	at := len(d.k.code)
	d.fixups = append(d.fixups, func() { d.k.code[at].target = l.pc })
	return d.emit()
}

func (d *decoder) exit() error {
	d.in.kind = inExit
	return d.emit()
}
