package ptxvm

import "sync"

// A kernel is an entry made ready to run.
type kernel struct {
	name       string
	params     []param
	paramSize  int
	code       []instr
	slots      int        // registers, constants and special registers; each has a value for every lane
	preds      int        // predicate registers; each is a mask of lanes
	consts     []constant // slots with values that never change
	shared     int
	local      int
	maxThreads int
	pool       sync.Pool // of blocks
}

// A constant fills a slot: a number, or the address of a module's variable plus a number.
type constant struct {
	slot  int
	value uint64
	v     *variable
}

type instrKind uint8

const (
	inOp     instrKind = iota // run does it, for all lanes of the mask
	inBranch                  // to target
	inExit                    // of the thread
	inGather                  // collective of the warp
)

// An instr is decoded: operands are slots, times 32, so that they index a warp's registers.
type instr struct {
	kind  instrKind
	pred  int32  // predicate register, -1 without
	xor   uint32 // all ones for @!p
	dst   int
	a     int
	b     int
	c     int
	run   func(w *warp, in *instr, m uint32)
	f1    func(a uint64) uint64
	f2    func(a, b uint64) uint64
	f3    func(a, b, c uint64) uint64
	cmp   func(a, b uint64) bool
	pd    int32  // predicate results, -1 for none
	pa    int32  // predicate sources, -1 for none
	pb    int32  // the second one
	pax   uint32 // all ones where they are negated
	pbx   uint32
	space space
	size  int // bytes of an element, or another small number
	off   uint64
	vec   []int // destinations or sources of vectors
	sext  bool
	mask  uint64 // of the destination's bits
	gather
	target int

	line int
	text string
}

// full is the mask of all lanes.
const full = ^uint32(0)
