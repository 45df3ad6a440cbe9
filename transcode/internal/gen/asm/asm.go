// Package asm is what the programs beside it share. Each of them writes assembly with
// AVX2, and the Go file that declares it, for one package of transcode: run it by go
// generate there.
//
// # Nouns
//
// A target is the package that the assembly is for. Its constants, and the fields of its
// structures, are known here by their names. A [Vec] is a register of 32 bytes.
//
// Functions that return a Vec emit an instruction whose result goes to a new register.
package asm

import (
	"encoding/binary"
	"go/constant"
	"go/types"
	"log"
	"os"
	"strings"

	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/gotypes"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
	"golang.org/x/tools/go/packages"
)

// Target is the package that assembly is for.
type Target struct{ scope *types.Scope }

// Open reads the package in a directory of the repository, named from its root. The package
// has to compile: when a function gets another name, its declaration comes first.
func Open(directory string) Target {
	config := &packages.Config{Mode: packages.NeedTypes | packages.NeedDeps | packages.NeedImports, Dir: "../../../" + directory}
	loaded, err := packages.Load(config, ".")
	if err != nil {
		log.Fatal(err)
	}
	// Its types are those of avo too, which looks where the program runs.
	back, err := os.Getwd()
	if err == nil {
		err = os.Chdir(config.Dir)
	}
	if err != nil {
		log.Fatal(err)
	}
	Package(".")
	if err := os.Chdir(back); err != nil {
		log.Fatal(err)
	}
	ConstraintExpr("amd64")
	return Target{loaded[0].Types.Scope()}
}

// Int is a constant.
func (t Target) Int(name string) int {
	c, ok := t.scope.Lookup(name).(*types.Const)
	if !ok {
		log.Fatalf("there is no constant %s", name)
	}
	v, ok := constant.Int64Val(constant.ToInt(c.Val()))
	if !ok {
		log.Fatalf("%s is no integer", name)
	}
	return int(v)
}

// Size is the number of bytes of a type.
func (t Target) Size(name string) int {
	o, ok := t.scope.Lookup(name).(*types.TypeName)
	if !ok {
		log.Fatalf("there is no type %s", name)
	}
	return int(types.SizesFor("gc", "amd64").Sizeof(o.Type()))
}

// Kernel begins a function.
func Kernel(name, signature, doc string) {
	TEXT(name, NOSPLIT, signature)
	Pragma("noescape")
	Doc(strings.Split(name+" "+doc, "\n")...)
}

// Arg loads a parameter.
func Arg(name string) reg.GPVirtual { return Load(Param(name), GP64()).(reg.GPVirtual) }

// ArgAddr is where a parameter is, for those that are rarely used.
func ArgAddr(name string) Mem { return Addr(Param(name)) }

// Struct is what a parameter points to. The pointer is in a register, which may have moved.
func Struct(name string, pointer reg.Register) gotypes.Component {
	return Param(name).Dereference(pointer)
}

// Addr is the address of a number, or of the first byte of an array of bytes.
func Addr(c gotypes.Component) Mem {
	b, err := c.Resolve()
	if err != nil {
		b, err = c.Index(0).Resolve()
	}
	if err != nil {
		log.Fatal(err)
	}
	return b.Addr
}

// Result returns a value, which ends the function.
func Result(v reg.Register) {
	Store(v, ReturnIndex(0))
	VZEROUPPER()
	RET()
}

// Data places bytes, whose number is a multiple of 8, in memory.
func Data(name string, b []byte) Mem {
	m := GLOBL(name, RODATA|NOPTR)
	for i := 0; i < len(b); i += 8 {
		DATA(i, U64(binary.LittleEndian.Uint64(b[i:])))
	}
	return m
}

// Data32 places 32 bytes, those that f returns.
func Data32(name string, f func(i int) byte) Mem {
	b := make([]byte, 32)
	for i := range b {
		b[i] = f(i)
	}
	return Data(name, b)
}

// Repeated places 32 equal bytes.
func Repeated(name string, v byte) Mem { return Data32(name, func(int) byte { return v }) }

// Vec is a register.
type Vec = reg.VecVirtual

// Apply returns what an instruction makes of a and b; a - b for a difference.
func Apply(f func(...Op), a, b Op) Vec {
	d := YMM()
	f(b, a, d)
	return d
}

// Apply16 is Apply for the lower 16 bytes.
func Apply16(f func(...Op), a, b Op) Vec {
	d := XMM()
	f(b, a, d)
	return d
}

// Three is for instructions that have no forms with more operands.
func Three(f func(a, b, d Op)) func(...Op) {
	return func(o ...Op) { f(o[0], o[1], o[2]) }
}

// Loaded returns 32 bytes of memory.
func Loaded(m Op) Vec {
	d := YMM()
	VMOVDQU(m, d)
	return d
}

// Zeros returns 32 of them.
func Zeros() Vec {
	d := YMM()
	VPXOR(d, d, d)
	return d
}

// Maximum and those that follow take bytes without sign, one by one.
func Maximum(a, b Op) Vec { return Apply(VPMAXUB, a, b) }
func Minimum(a, b Op) Vec { return Apply(VPMINUB, a, b) }
func Average(a, b Op) Vec { return Apply(VPAVGB, a, b) }
func Minus(a, b Op) Vec   { return Apply(VPSUBB, a, b) }
func Plus(a, b Op) Vec    { return Apply(VPADDB, a, b) }
func Equal(a, b Op) Vec   { return Apply(VPCMPEQB, a, b) }
func Shuffle(a, b Op) Vec { return Apply(VPSHUFB, a, b) }
func And(a, b Op) Vec     { return Apply(Three(VPAND), a, b) }
func Or(a, b Op) Vec      { return Apply(Three(VPOR), a, b) }
func Xor(a, b Op) Vec     { return Apply(Three(VPXOR), a, b) }

// Halves takes two of the halves of a, 0 and 1, and b, 2 and 3, by the immediate of
// VPERM2I128.
func Halves(imm int, a, b Op) Vec {
	d := YMM()
	VPERM2I128(U8(imm), b, a, d)
	return d
}
