package ptxvm

import (
	"iter"
	"math"
	"math/bits"
)

// A warp is 32 threads and their registers.
type warp struct {
	b     *block
	id    int
	regs  []uint64 // slot*32 + lane
	preds []uint32 // a bit for each lane
	local []byte

	pcs     [32]int
	alive   uint32 // lanes that exist and have not exited
	ready   uint32 // those of them that wait for nothing
	waiting [32]*instr
	members [32]uint32 // of the collective a lane waits at
	pc      int        // of the instruction being executed

	last  *alloc // the allocation accessed last
	value [16]byte

	// the race check, see race.go
	tick    uint32
	met     uint32 // the lanes of this warp know of each other's ticks before this one
	parted  bool
	metLane [32][32]uint32 // where only some met since
}

// lanes iterates over the set bits.
func lanes(m uint32) iter.Seq[int] {
	return func(yield func(int) bool) {
		for m != 0 {
			if !yield(bits.TrailingZeros32(m)) {
				return
			}
			m &= m - 1
		}
	}
}

func first(m uint32) int { return bits.TrailingZeros32(m) }

func (w *warp) lane32(slot int) *[32]uint64 { return (*[32]uint64)(w.regs[slot : slot+32]) }

func (w *warp) pred(p int32) uint32 {
	if p < 0 {
		return 0
	}
	return w.preds[p]
}

// setPred sets a predicate for the lanes of m.
func (w *warp) setPred(p int32, m, v uint32) {
	if p >= 0 {
		w.preds[p] = w.preds[p]&^m | v&m
	}
}

// pick chooses the lanes to run: those at the least pc, and returns the next pc of other lanes, where they may meet.
// With a seed, others get their turn now and then.
func (w *warp) pick() (m uint32, pc, limit int) {
	pc, limit = math.MaxInt, math.MaxInt
	for l := range lanes(w.ready) {
		switch p := w.pcs[l]; {
		case p < pc:
			pc, limit, m = p, pc, 1<<l
		case p == pc:
			m |= 1 << l
		case p < limit:
			limit = p
		}
	}
	if limit != math.MaxInt && w.b.rng != nil && w.b.rng.IntN(8) == 0 {
		l := first(w.ready &^ m)
		for range w.b.rng.IntN(bits.OnesCount32(w.ready &^ m)) {
			m |= 1 << l
			l = first(w.ready &^ m)
		}
		pc, limit, m = w.pcs[l], math.MaxInt, 0
		for i := range lanes(w.ready) {
			if p := w.pcs[i]; p == pc {
				m |= 1 << i
			} else if p > pc && p < limit {
				limit = p
			}
		}
	}
	return m, pc, limit
}

// run executes up to n instructions and returns how many it did: fewer if all lanes wait or have exited.
func (w *warp) run(n int) int {
	code, prof := w.b.l.k.code, w.b.profile
	done := 0
	for done < n && w.ready != 0 {
		m, pc, limit := w.pick()
		for done < n && pc < limit {
			in := &code[pc]
			em := m
			if in.pred >= 0 {
				em &= w.preds[in.pred] ^ in.xor
			}
			done++
			prof[pc].Warps++
			prof[pc].Lanes += uint64(bits.OnesCount32(em))
			w.pc = pc
			pc++
			if em == 0 {
				continue
			}
			if in.kind == inOp {
				in.run(w, in, em)
				continue
			}
			if in.kind == inBranch && em == m {
				pc = in.target
				continue
			}
			w.set(m, pc)
			if w.control(in, em) {
				continue
			}
			m = 0
			break
		}
		w.set(m, pc)
	}
	return done
}

func (w *warp) set(m uint32, pc int) {
	if m == full {
		for l := range w.pcs {
			w.pcs[l] = pc
		}
		return
	}
	for l := range lanes(m) {
		w.pcs[l] = pc
	}
}

// control executes what may change where lanes go on; their pcs are set to the next instruction. It returns whether
// all of them go on there, together.
func (w *warp) control(in *instr, m uint32) bool {
	switch in.kind {
	case inBranch:
		w.set(m, in.target)
	case inExit:
		w.alive &^= m
		w.ready &^= m
		w.b.threadsAlive -= bits.OnesCount32(m)
		w.release()
	case inGather:
		return w.gather(in, m)
	}
	return false
}

func run1(w *warp, in *instr, m uint32) {
	dst, a, f := w.lane32(in.dst), w.lane32(in.a), in.f1
	if m == full {
		for l := range dst {
			dst[l] = f(a[l])
		}
		return
	}
	for ; m != 0; m &= m - 1 {
		l := first(m) & 31
		dst[l] = f(a[l])
	}
}

func run2(w *warp, in *instr, m uint32) {
	dst, a, b, f := w.lane32(in.dst), w.lane32(in.a), w.lane32(in.b), in.f2
	if m == full {
		for l := range dst {
			dst[l] = f(a[l], b[l])
		}
		return
	}
	for ; m != 0; m &= m - 1 {
		l := first(m) & 31
		dst[l] = f(a[l], b[l])
	}
}

func run3(w *warp, in *instr, m uint32) {
	dst, a, b, c, f := w.lane32(in.dst), w.lane32(in.a), w.lane32(in.b), w.lane32(in.c), in.f3
	if m == full {
		for l := range dst {
			dst[l] = f(a[l], b[l], c[l])
		}
		return
	}
	for ; m != 0; m &= m - 1 {
		l := first(m) & 31
		dst[l] = f(a[l], b[l], c[l])
	}
}
