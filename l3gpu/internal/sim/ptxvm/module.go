package ptxvm

import "sort"

// A Module is a parsed PTX file. It does not change and can be loaded into any number of devices.
type Module struct {
	Version string // ".version", as "8.2"
	Target  string // ".target", as "sm_75"

	kernels map[string]*kernel
	funcs   map[string]*function
	vars    []*variable // of the module, with storage
	globals map[string]*variable
	files   map[uint64]string // .file
}

// Entries returns the names of the kernels, sorted.
func (m *Module) Entries() []string {
	var names []string
	for n := range m.kernels {
		names = append(names, n)
	}
	sort.Strings(names)
	return names
}

// A Param is one parameter of a kernel: its place in the parameter buffer.
type Param struct {
	Name                string
	Offset, Size, Align int
}

// Entry describes a kernel; ok is false if there is none of that name.
func (m *Module) Entry(name string) (e Entry, ok bool) {
	k := m.kernels[name]
	if k == nil {
		return e, false
	}
	return Entry{Params: append([]Param(nil), k.params...), Shared: k.shared, Local: k.local, MaxThreads: k.maxThreads, Instructions: len(k.code)}, true
}

// An Entry is what is known of a kernel before it runs.
type Entry struct {
	Params       []Param
	Shared       int // bytes of static shared memory
	Local        int // bytes of local memory of a thread
	MaxThreads   int // from .maxntid or .reqntid, 0 if there is neither
	Instructions int
}

type space uint8

const (
	spGeneric space = iota
	spGlobal
	spShared
	spLocal
	spConst
	spParam
)

var spaceNames = [...]string{"generic", "global", "shared", "local", "constant", "parameter"}

func (s space) String() string { return spaceNames[s] }

var spaceOf = map[string]space{"global": spGlobal, "shared": spShared, "local": spLocal, "const": spConst, "param": spParam}

// A variable has storage in one of the spaces. Those of the module get their address when it is loaded; shared, local
// and parameter ones have an offset.
type variable struct {
	name   string
	space  space
	elem   int // bytes of an element
	align  int
	size   int
	extern bool // dynamic shared memory
	init   []byte
	refs   []reference
	offset uint64
	line   int
}

// A reference is an address within an initialiser.
type reference struct {
	at     int
	symbol string
	add    int64
}

// A function is a parsed body, not yet decoded: functions are decoded anew wherever they are called.
type function struct {
	name        string
	entry       bool
	params      []*variable
	returns     []*variable
	body        []stmt
	maxThreads  int
	exactly     bool // maxThreads is .reqntid
	defined     bool
	line        int
	beingCalled bool // found while it is being decoded: recursion
}

type stmtKind uint8

const (
	stInstr stmtKind = iota
	stLabel
	stOpen
	stClose
	stVar
	stReg
	stTargets // label: .branchtargets
)

type stmt struct {
	kind   stmtKind
	line   int
	source string
	text   string
	label  string
	guard  operand // predicate; kind opNone without
	op     string
	args   []operand
	v      *variable
	regs   []regDecl
}

type regDecl struct {
	name  string
	typ   string
	count int // of name0 ... , -1 for the name itself
}

type opKind uint8

const (
	opNone  opKind = iota
	opName         // register, special register, symbol or label
	opImm          // val
	opAddr         // [name+off], or [val] where name is empty
	opVec          // {list}
	opPair         // list[0]|list[1]
	opParen        // (list), of a call
)

type operand struct {
	kind  opKind
	name  string
	not   bool // !name
	minus bool // -name
	val   uint64
	off   int64
	list  []operand
}
