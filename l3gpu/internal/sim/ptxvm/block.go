package ptxvm

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"strings"
)

// A block is one block of a launch while it runs. A worker uses it again for its next block.
type block struct {
	l            *launch
	id           [3]uint32
	threads      int
	threadsAlive int
	warps        []*warp
	shared       shared
	bars         [16]blockBarrier
	rng          *rand.Rand // nil without a seed
	profile      []count
	access       accessStats
	before       uint32 // ticks up to this one are of earlier blocks
}

// A blockBarrier is one of a block's 16 barriers while threads wait there.
type blockBarrier struct {
	used    bool
	all     bool
	count   int
	arrived []uint32 // lanes of each warp, those that wait and those that do not
	waits   []uint32
	at      []int // the instruction of each warp, -1 before one arrives
	preds   []uint32
	heard   []uint32 // the ticks of warps before which all is known to those who arrived
}

// takeBlock returns a block of an earlier launch of the kernel, if there is one of that size: registers and shadows
// are much memory.
func takeBlock(l *launch) *block {
	b, ok := l.k.pool.Get().(*block)
	threads := int(l.block[0] * l.block[1] * l.block[2])
	if !ok || b.threads != threads || len(b.shared.data) != l.sharedSize || (b.shared.shadow == nil) != l.d.opts.AllowRaces {
		return newBlock(l)
	}
	b.l, b.rng, b.access = l, nil, accessStats{}
	clear(b.profile)
	for _, w := range b.warps {
		w.last = nil
		l.fillSpecial(w)
	}
	return b
}

func newBlock(l *launch) *block {
	b := &block{l: l, threads: int(l.block[0] * l.block[1] * l.block[2])}
	n := (b.threads + 31) / 32
	k := l.k
	b.profile = make([]count, len(k.code))
	b.shared.data = make([]byte, l.sharedSize)
	b.shared.written = make([]byte, l.sharedSize)
	if !l.d.opts.AllowRaces {
		b.shared.shadow = make([]shadow, l.sharedSize)
	}
	for i := range b.bars {
		b.bars[i] = blockBarrier{arrived: make([]uint32, n), waits: make([]uint32, n), at: make([]int, n), preds: make([]uint32, n), heard: make([]uint32, n)}
	}
	for i := range n {
		w := &warp{b: b, id: i, regs: make([]uint64, k.slots*32), preds: make([]uint32, k.preds), local: make([]byte, k.local*32), heard: make([]uint32, n)}
		l.fillSpecial(w)
		b.warps = append(b.warps, w)
	}
	return b
}

// start makes the block ready to run as another one. Memory that nobody wrote differs from what it may have held.
func (b *block) start(id [3]uint32, n uint64) {
	b.id = id
	b.threadsAlive = b.threads
	for _, w := range b.warps {
		b.before = max(b.before, w.tick)
	}
	for i := range b.shared.written {
		b.shared.written[i] = 0
		b.shared.data[i] = 0xa5
	}
	for i := range b.bars {
		b.bars[i].reset()
	}
	if seed := b.l.d.opts.Seed; seed != 0 {
		b.rng = rand.New(rand.NewPCG(seed, n))
	}
	for i, w := range b.warps {
		w.alive = full
		if rest := b.threads - i*32; rest < 32 {
			w.alive = 1<<rest - 1
		}
		w.ready, w.alone, w.cc, w.copies = w.alive, 0, 0, w.copies[:0]
		w.tick, w.met, w.parted = b.before+1, 0, false
		for l := range 32 {
			w.pcs[l], w.waiting[l], w.atBar[l], w.groups[l] = 0, nil, -1, 0
			for j, v := range id {
				w.regs[spCtaid+32*j+l] = uint64(v)
			}
		}
		for j := range w.heard {
			w.heard[j] = 0
		}
		for j := range w.local {
			w.local[j] = 0xa5
		}
	}
}

func (r *blockBarrier) reset() {
	r.used = false
	for i := range r.arrived {
		r.arrived[i], r.waits[i], r.at[i], r.preds[i], r.heard[i] = 0, 0, -1, 0, 0
	}
}

// run executes the block to its end.
func (b *block) run() {
	for b.threadsAlive > 0 {
		progress := false
		order := b.order()
		for _, i := range order {
			w := b.warps[i]
			if w.ready == 0 {
				continue
			}
			n := 1 << 14
			if b.rng != nil {
				n = 1 + b.rng.IntN(200)
			}
			n = w.run(n)
			progress = true
			b.l.spend(w, n)
			b.check()
		}
		if !progress && b.threadsAlive > 0 {
			b.deadlock()
		}
	}
}

func (b *block) order() []int {
	if b.rng != nil {
		return b.rng.Perm(len(b.warps))
	}
	return b.l.inOrder
}

// arrive lets lanes of a warp arrive at a barrier. It returns true if they go on at once.
func (b *block) arrive(w *warp, in *instr, m uint32) bool {
	op, id := in.bar, int(w.regs[in.a+first(m)])
	count := 0
	if !op.all {
		count = int(w.regs[in.b+first(m)])
	}
	for l := range lanes(m) {
		switch {
		case int(w.regs[in.a+l]) != id || id > 15:
			w.fail(BadBarrier, l, 0, "number %d", w.regs[in.a+l])
		case !op.all && (int(w.regs[in.b+l]) != count || count == 0 || count%32 != 0):
			w.fail(BadBarrier, l, 0, "count %d of barrier %d is not a multiple of 32, or differs between lanes", w.regs[in.b+l], id)
		case b.bars[id].arrived[w.id]>>l&1 != 0:
			w.fail(BadBarrier, l, 0, "second arrival at barrier %d before it is complete", id)
		}
	}
	r := &b.bars[id]
	if r.used && (r.all != op.all || r.count != count) {
		w.fail(BadBarrier, first(m), 0, "count %d of barrier %d, others have %d", count, id, r.count)
	}
	if op.aligned && r.at[w.id] >= 0 && r.at[w.id] != w.pc {
		w.fail(Divergent, first(m), 0, "other lanes of the warp are at barrier %d in line %d", id, b.l.k.code[r.at[w.id]].line)
	}
	r.used, r.all, r.count = true, op.all, count
	r.arrived[w.id] |= m
	r.at[w.id] = w.pc
	if in.pa >= 0 {
		r.preds[w.id] |= m & (w.preds[in.pa] ^ in.pax)
	}
	for i, t := range w.heard {
		r.heard[i] = max(r.heard[i], t)
	}
	w.tick++
	r.heard[w.id] = w.tick
	if op.wait {
		r.waits[w.id] |= m
		w.ready &^= m
		for l := range lanes(m) {
			w.atBar[l] = int8(id)
		}
	}
	return !op.wait
}

// check opens the barriers at which nobody is missing.
func (b *block) check() {
	for id := range b.bars {
		r := &b.bars[id]
		if !r.used {
			continue
		}
		n := 0
		for i, m := range r.arrived {
			w := b.warps[i]
			if n += bits.OnesCount32(m); m != 0 && !r.all { // a count is of whole warps: those who exited, or never were, count
				n += bits.OnesCount32(^w.alive &^ m)
			}
		}
		if r.all && n >= b.threadsAlive || !r.all && n >= r.count {
			b.open(r)
		}
	}
}

func (b *block) open(r *blockBarrier) {
	total, set := 0, 0
	for i := range r.arrived {
		total += bits.OnesCount32(r.arrived[i])
		set += bits.OnesCount32(r.preds[i])
	}
	for i, m := range r.waits {
		if m == 0 {
			continue
		}
		w := b.warps[i]
		w.ready |= m
		for l := range lanes(m) {
			w.atBar[l] = -1
		}
		for j, t := range r.heard {
			w.heard[j] = max(w.heard[j], t)
		}
		w.meet(m)
		switch in := &b.l.k.code[r.at[i]]; in.bar.red {
		case "popc":
			for l := range lanes(m) {
				w.regs[in.dst+l] = uint64(set)
			}
		case "and":
			w.setPred(in.pd, m, boolMask(set == total))
		case "or":
			w.setPred(in.pd, m, boolMask(set > 0))
		}
	}
	r.reset()
}

func boolMask(b bool) uint32 {
	if b {
		return full
	}
	return 0
}

// deadlock fails, saying what each group of lanes waits for.
func (b *block) deadlock() {
	var parts []string
	var f *Fault
	for _, w := range b.warps {
		seen := map[int]uint32{}
		for l := range lanes(w.alive) {
			seen[w.pcs[l]-1] |= 1 << l
		}
		for l := range lanes(w.alive) {
			m := seen[w.pcs[l]-1]
			if first(m) != l {
				continue
			}
			in := &b.l.k.code[w.pcs[l]-1]
			parts = append(parts, fmt.Sprintf("warp %d lanes %08x at line %d: %s", w.id, m, in.line, in.text))
			if f == nil {
				f = w.fault(w.pcs[l]-1, Deadlock, l, 0, "")
			}
		}
	}
	if len(parts) > 8 {
		parts = append(parts[:8], "…")
	}
	f.Detail = "all wait: " + strings.Join(parts, "; ")
	panic(f)
}
