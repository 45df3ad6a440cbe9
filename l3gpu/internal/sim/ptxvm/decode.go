package ptxvm

import (
	"fmt"
	"strconv"
	"strings"
)

// A decoder turns a function's statements into instructions. Calls are decoded in place, with registers of their own.
type decoder struct {
	m      *Module
	k      *kernel
	scopes []*scope
	consts map[constant]int
	placed map[*variable]*variable // shared memory of functions, which has one place however often they are called
	fixups []func() error
	st     *stmt
	op     []string // the opcode, cut at its dots
	in     *instr
}

// A scope is what is between braces.
type scope struct {
	regs    map[string]reg
	ranges  []regRange
	vars    map[string]*variable
	labels  map[string]*label
	targets map[string][]*label
	fn      *function
	end     *label // where ret of a called function goes
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

type label struct {
	name string
	pc   int
}

func decode(m *Module, f *function) (*kernel, error) {
	d := &decoder{m: m, consts: map[constant]int{}, placed: map[*variable]*variable{}}
	d.k = &kernel{name: f.name, slots: numSpecial, maxThreads: f.maxThreads, exactly: f.exactly, dynAlign: 16}
	top := newScope(f)
	at := 0
	for _, v := range f.params {
		at = align(at, v.align)
		v.offset = uint64(at)
		top.vars[v.name] = v
		d.k.params = append(d.k.params, Param{v.name, at, v.size, v.align})
		at += v.size
	}
	d.k.paramSize = at
	for _, v := range m.vars {
		switch {
		case v.space != spShared:
		case v.extern:
			d.k.dynAlign = max(d.k.dynAlign, v.align)
		default:
			d.placeShared(v)
		}
	}
	if err := d.function(f, top); err != nil {
		return nil, err
	}
	for _, fix := range d.fixups {
		if err := fix(); err != nil {
			return nil, err
		}
	}
	return d.k, nil
}

func newScope(f *function) *scope {
	return &scope{regs: map[string]reg{}, vars: map[string]*variable{}, labels: map[string]*label{}, targets: map[string][]*label{}, fn: f}
}

func align(n, a int) int {
	if a <= 1 {
		return n
	}
	return (n + a - 1) / a * a
}

func (d *decoder) placeShared(v *variable) {
	d.k.shared = align(d.k.shared, v.align)
	v.offset = uint64(d.k.shared)
	d.k.shared += v.size
}

func (d *decoder) errf(format string, args ...any) error {
	return fmt.Errorf("ptx line %d: %s: %s", d.st.line, fmt.Sprintf(format, args...), d.st.text)
}

func (d *decoder) top() *scope { return d.scopes[len(d.scopes)-1] }

// function decodes a body in a scope that has its parameters. Control that reaches the end falls out of it.
func (d *decoder) function(f *function, sc *scope) error {
	sc.end = &label{name: "end of " + f.name, pc: -1}
	depth := len(d.scopes)
	d.push(sc, f.body)
	for i := range f.body {
		st := &f.body[i]
		d.st = st
		var err error
		switch st.kind {
		case stOpen:
			inner := newScope(f)
			inner.end = sc.end
			d.push(inner, f.body[i+1:])
		case stClose:
			d.scopes = d.scopes[:len(d.scopes)-1]
		case stLabel:
			d.top().labels[st.label].pc = len(d.k.code)
		case stTargets:
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
	sc.end.pc = len(d.k.code)
	d.scopes = d.scopes[:depth]
	if depth == 0 { // for those who fall out of an entry
		d.k.code = append(d.k.code, instr{kind: inExit, pred: -1, line: d.st.line, text: "}", opcode: "exit", class: Control})
	}
	return nil
}

// push enters a scope whose statements begin the list; labels may be used before they are met.
func (d *decoder) push(sc *scope, body []stmt) {
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
				sc.labels[st.label] = &label{name: st.label, pc: -1}
			}
		}
	}
	for i := range body {
		if st := &body[i]; st.kind == stTargets && len(d.scopes) > 0 {
			var list []*label
			for _, o := range st.args {
				if l := d.label(o.name); l != nil {
					list = append(list, l)
				}
			}
			sc.targets[st.label] = list
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

func (d *decoder) variable(v *variable) error {
	if v.init != nil || len(v.refs) > 0 {
		return fmt.Errorf("ptx line %d: %s within a function has an initialiser", v.line, v.name)
	}
	switch v.space {
	case spShared:
		c := d.placed[v]
		if c == nil {
			c = new(variable)
			*c = *v
			d.placeShared(c)
			d.placed[v] = c
		}
		d.top().vars[v.name] = c
	case spLocal, spParam: // .param within a body: arguments of a call, kept in local memory
		d.k.local = align(d.k.local, max(v.align, 1))
		c := *v
		c.offset = uint64(d.k.local)
		if v.space == spParam {
			c.offset += localParams
		}
		d.k.local += v.size
		d.top().vars[v.name] = &c
	default:
		return fmt.Errorf("ptx line %d: %s memory declared within a function", v.line, v.space)
	}
	return nil
}

// localParams is where the parameter space has the arguments of calls, as local memory.
const localParams = 1 << 24

func (d *decoder) label(name string) *label {
	for i := len(d.scopes) - 1; i >= 0; i-- {
		if l := d.scopes[i].labels[name]; l != nil {
			return l
		}
		if d.scopes[i].fn != d.top().fn {
			break
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
		if sc.fn != d.top().fn {
			break
		}
	}
	return reg{}, false
}
