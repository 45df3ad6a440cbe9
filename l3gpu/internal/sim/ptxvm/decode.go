package ptxvm

import (
	"fmt"
	"strconv"
	"strings"
)

// A decoder turns the statements of an entry into instructions.
type decoder struct {
	m      *Module
	k      *kernel
	scopes []*scope
	consts map[constant]int
	fixups []func()
	st     *stmt
	op     []string // the opcode, cut at its dots
	in     *instr
}

// A scope is what is between braces.
type scope struct {
	regs   map[string]reg
	ranges []regRange
	vars   map[string]*variable
	labels map[string]*label
}

type reg struct {
	slot int // times 32; of predicates, their number
	size int // bytes, 0 for a predicate
}

// A regRange is %r<100>: its registers get slots when they are first used.
type regRange struct {
	prefix string
	count  int
	size   int
}

type label struct{ pc int }

func decode(m *Module, f *function) (*kernel, error) {
	d := &decoder{m: m, consts: map[constant]int{}}
	d.k = &kernel{name: f.name, slots: numSpecial, maxThreads: f.maxThreads}
	d.push(f.body)
	at := 0
	for _, v := range f.params {
		at = align(at, v.align)
		v.offset = uint64(at)
		d.top().vars[v.name] = v
		d.k.params = append(d.k.params, param{at, v.size})
		at += v.size
	}
	d.k.paramSize = at
	if err := d.body(f.body); err != nil {
		return nil, err
	}
	for _, fix := range d.fixups {
		fix()
	}
	return d.k, nil
}

func align(n, a int) int {
	if a <= 1 {
		return n
	}
	return (n + a - 1) / a * a
}

func (d *decoder) errf(format string, args ...any) error {
	return fmt.Errorf("ptx line %d: %s: %s", d.st.line, fmt.Sprintf(format, args...), d.st.text)
}

func (d *decoder) top() *scope { return d.scopes[len(d.scopes)-1] }

// body decodes the statements of an entry. Threads that reach the end exit.
func (d *decoder) body(body []stmt) error {
	for i := range body {
		st := &body[i]
		d.st = st
		var err error
		switch st.kind {
		case stOpen:
			d.push(body[i+1:])
		case stClose:
			d.scopes = d.scopes[:len(d.scopes)-1]
		case stLabel:
			d.top().labels[st.label].pc = len(d.k.code)
		case stReg:
			d.declare(st.regs)
		case stVar:
			err = d.variable(st.v)
		case stInstr:
			err = d.instr(st)
		}
		if err != nil {
			return err
		}
	}
	line := 0
	if d.st != nil {
		line = d.st.line
	}
	d.k.code = append(d.k.code, instr{kind: inExit, pred: -1, line: line, text: "}"})
	return nil
}

// push enters a scope whose statements begin the list. Labels may be used before they are met.
func (d *decoder) push(body []stmt) {
	sc := &scope{regs: map[string]reg{}, vars: map[string]*variable{}, labels: map[string]*label{}}
	d.scopes = append(d.scopes, sc)
	depth := 0
	for i := range body {
		switch st := &body[i]; st.kind {
		case stOpen:
			depth++
		case stClose:
			if depth--; depth < 0 {
				return
			}
		case stLabel:
			if depth == 0 {
				sc.labels[st.label] = &label{pc: -1}
			}
		}
	}
}

func (d *decoder) declare(list []regDecl) {
	sc := d.top()
	for _, r := range list {
		if r.count >= 0 {
			sc.ranges = append(sc.ranges, regRange{r.name, r.count, typeSize(r.typ)})
		} else {
			sc.regs[r.name] = d.newReg(typeSize(r.typ))
		}
	}
}

func (d *decoder) newReg(size int) reg {
	if size == 0 {
		d.k.preds++
		return reg{slot: d.k.preds - 1}
	}
	d.k.slots++
	return reg{slot: (d.k.slots - 1) * 32, size: size}
}

// variable gives a variable of the entry its place in shared or local memory.
func (d *decoder) variable(v *variable) error {
	place := &d.k.shared
	switch {
	case v.init != nil:
		return fmt.Errorf("ptx line %d: %s within an entry has an initialiser", v.line, v.name)
	case v.space == spLocal:
		place = &d.k.local
	case v.space != spShared:
		return fmt.Errorf("ptx line %d: %s memory declared within an entry", v.line, v.space)
	}
	*place = align(*place, v.align)
	v.offset = uint64(*place)
	*place += v.size
	d.top().vars[v.name] = v
	return nil
}

func (d *decoder) label(name string) *label {
	for i := len(d.scopes) - 1; i >= 0; i-- {
		if l := d.scopes[i].labels[name]; l != nil {
			return l
		}
	}
	return nil
}

func (d *decoder) symbol(name string) *variable {
	for i := len(d.scopes) - 1; i >= 0; i-- {
		if v := d.scopes[i].vars[name]; v != nil {
			return v
		}
	}
	return d.m.globals[name]
}

// register finds a register by name.
func (d *decoder) register(name string) (reg, bool) {
	for i := len(d.scopes) - 1; i >= 0; i-- {
		sc := d.scopes[i]
		if r, ok := sc.regs[name]; ok {
			return r, true
		}
		for _, rr := range sc.ranges {
			n, ok := strings.CutPrefix(name, rr.prefix)
			if !ok {
				continue
			}
			if i, err := strconv.Atoi(n); err == nil && i >= 0 && i < rr.count {
				r := d.newReg(rr.size)
				sc.regs[name] = r
				return r, true
			}
		}
	}
	return reg{}, false
}

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
