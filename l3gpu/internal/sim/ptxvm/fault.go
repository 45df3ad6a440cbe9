package ptxvm

import (
	"fmt"
	"strings"
)

// Kind says what is wrong with a kernel.
type Kind string

// The kinds of faults.
const (
	OutOfBounds   Kind = "out of bounds"
	Misaligned    Kind = "misaligned access"
	Freed         Kind = "access to freed memory"
	Uninitialised Kind = "read of a byte that was never written"
	ReadOnly      Kind = "write to constant memory"
	Race          Kind = "race"
	Deadlock      Kind = "deadlock"
	Divergent     Kind = "block barrier in divergent code"
	BadMask       Kind = "bad member mask"
	BadBarrier    Kind = "bad barrier"
	Budget        Kind = "too many instructions"
	Trap          Kind = "trap"
	BadBranch     Kind = "branch index out of range"

	stopped Kind = "stopped" // since another block failed
)

// A Fault is what a kernel did wrong, and where.
type Fault struct {
	Kind    Kind
	Kernel  string
	Block   [3]uint32
	Thread  [3]uint32
	Line    int    // of the PTX text
	Text    string // the instruction
	Source  string // file:line of the CUDA source, where the PTX has it
	Address uint64 // within its space
	Detail  string
}

// Error names the kind, the place and the details.
func (f *Fault) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", f.Kernel, f.Kind)
	if f.Detail != "" {
		fmt.Fprintf(&b, ": %s", f.Detail)
	}
	fmt.Fprintf(&b, ", block %d,%d,%d thread %d,%d,%d", f.Block[0], f.Block[1], f.Block[2], f.Thread[0], f.Thread[1], f.Thread[2])
	if f.Line > 0 {
		fmt.Fprintf(&b, ", line %d: %s", f.Line, f.Text)
	}
	if f.Source != "" {
		fmt.Fprintf(&b, " (%s)", f.Source)
	}
	return b.String()
}

// fail ends the launch: it panics with a Fault, which the block's runner recovers. Instructions would otherwise each
// have to return an error for every lane.
func (w *warp) fail(kind Kind, lane int, addr uint64, format string, args ...any) {
	panic(w.fault(w.pc, kind, lane, addr, format, args...))
}

// fault describes what a lane does at pc.
func (w *warp) fault(pc int, kind Kind, lane int, addr uint64, format string, args ...any) *Fault {
	f := &Fault{Kind: kind, Kernel: w.b.l.k.name, Block: w.b.id, Address: addr, Detail: fmt.Sprintf(format, args...)}
	if t := w.id*32 + lane; t < w.b.threads {
		f.Thread = w.b.l.threadAt(t)
	}
	if code := w.b.l.k.code; pc >= 0 && pc < len(code) {
		f.Line, f.Text, f.Source = code[pc].line, code[pc].text, code[pc].source
	}
	return f
}
