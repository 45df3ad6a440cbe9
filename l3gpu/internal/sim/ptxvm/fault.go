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
	Race          Kind = "race"
	Deadlock      Kind = "deadlock"
	BadMask       Kind = "bad member mask"
	Budget        Kind = "too many instructions"

	stopped Kind = "stopped" // since another block failed
)

// A Fault is what a kernel did wrong, and where.
type Fault struct {
	Kind    Kind
	Kernel  string
	Block   uint32
	Thread  int
	Line    int    // of the PTX text
	Text    string // the instruction
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
	fmt.Fprintf(&b, ", block %d thread %d", f.Block, f.Thread)
	if f.Line > 0 {
		fmt.Fprintf(&b, ", line %d: %s", f.Line, f.Text)
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
	f := &Fault{Kind: kind, Kernel: w.b.l.k.name, Block: w.b.id, Thread: w.id*32 + lane, Address: addr, Detail: fmt.Sprintf(format, args...)}
	if code := w.b.l.k.code; pc >= 0 && pc < len(code) {
		f.Line, f.Text = code[pc].line, code[pc].text
	}
	return f
}
