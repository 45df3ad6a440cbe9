package ptxvm

import "strings"

// A Module is a parsed PTX file. It does not change and can be loaded into any number of devices.
type Module struct {
	kernels map[string]*kernel
	globals map[string]*variable
}

// Has says whether there is an entry of that name.
func (m *Module) Has(entry string) bool { return m.kernels[entry] != nil }

// A param is the place of a parameter of a kernel in the parameter buffer.
type param struct{ offset, size int }

type space uint8

const (
	spNone space = iota
	spGlobal
	spShared
	spLocal
	spParam
)

var spaceNames = [...]string{"no", "global", "shared", "local", "parameter"}

func (s space) String() string { return spaceNames[s] }

var spaceOf = map[string]space{"global": spGlobal, "shared": spShared, "local": spLocal, "param": spParam}

// A variable has storage in one of the spaces. Those of the module get their address when it is loaded; shared, local
// and parameter ones have an offset.
type variable struct {
	name   string
	space  space
	elem   int // bytes of an element
	align  int
	size   int
	init   []byte
	offset uint64
	line   int
}

// A function is a parsed entry, not yet decoded.
type function struct {
	name       string
	params     []*variable
	body       []stmt
	maxThreads int
}

type stmtKind uint8

const (
	stInstr stmtKind = iota
	stLabel
	stOpen
	stClose
	stVar
	stReg
)

type stmt struct {
	kind  stmtKind
	line  int
	text  string
	label string
	guard operand // predicate; kind opNone without
	op    string
	args  []operand
	v     *variable
	regs  []regDecl
}

type regDecl struct {
	name  string
	typ   string
	count int // of name0 ... , -1 for the name itself
}

type opKind uint8

const (
	opNone opKind = iota
	opName        // register, special register, symbol or label
	opImm         // val
	opAddr        // [name+off], or [val] where name is empty
	opVec         // {list}
	opPair        // list[0]|list[1]
)

type operand struct {
	kind opKind
	name string
	not  bool // !name
	val  uint64
	off  int64
	list []operand
}

// typeSize returns the bytes of a PTX type without its dot, 0 if it is none. A predicate has none.
func typeSize(t string) int {
	switch t {
	case "b8", "u8", "s8":
		return 1
	case "b16", "u16", "s16", "f16":
		return 2
	case "b32", "u32", "s32", "f32", "u16x2", "s16x2":
		return 4
	case "b64", "u64", "s64":
		return 8
	}
	return 0
}

// variable reads a declaration after its space: alignment, type, name, length, initialiser.
func (p *parser) variable(sp space) (*variable, error) {
	v := &variable{space: sp, line: p.peek().line}
	for v.elem == 0 {
		w, err := p.word()
		switch {
		case err != nil:
			return nil, err
		case w == ".align":
			if v.align, err = p.integer(); err != nil {
				return nil, err
			}
		default:
			if v.elem = typeSize(strings.TrimPrefix(w, ".")); v.elem == 0 {
				return nil, p.errf("unknown type %q", w)
			}
		}
	}
	v.align = max(v.align, v.elem)
	var err error
	if v.name, err = p.word(); err != nil {
		return nil, err
	}
	n := 1
	if p.accept("[") {
		if n, err = p.integer(); err != nil {
			return nil, err
		}
		if err := p.expect("]"); err != nil {
			return nil, err
		}
	}
	if v.size = v.elem * n; v.size > 1<<30 {
		return nil, p.errf("%s has %d bytes", v.name, v.size)
	}
	if p.accept("=") {
		return v, p.initialiser(v)
	}
	return v, nil
}

// initialiser reads the number, or the numbers, that a variable begins with.
func (p *parser) initialiser(v *variable) error {
	o, err := p.operand()
	if err != nil {
		return err
	}
	list := o.list
	if o.kind != opVec {
		list = []operand{o}
	}
	if len(list)*v.elem > v.size {
		return p.errf("too many values for %s", v.name)
	}
	v.init = make([]byte, v.size)
	for i, o := range list {
		if o.kind != opImm {
			return p.errf("a value of %s that is no number", v.name)
		}
		put(v.init[i*v.elem:(i+1)*v.elem], o.val)
	}
	return nil
}
