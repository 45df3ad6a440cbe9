package ptxvm

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
