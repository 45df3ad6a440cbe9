package ptxvm

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// A block is one block of a launch while it runs. A worker uses it again for its next block.
type block struct {
	l            *launch
	id           uint32
	threadsAlive int
	warps        []*warp
	shared       shared
	rng          *rand.Rand // nil without a seed
	profile      []Count
	access       accessStats
	before       uint32 // ticks up to this one are of earlier blocks
}

// takeBlock returns a block of an earlier launch of the kernel, if there is one of that size: registers and shadows
// are much memory.
func takeBlock(l *launch) *block {
	b, ok := l.k.pool.Get().(*block)
	if !ok || len(b.warps) != len(l.inOrder) {
		return newBlock(l)
	}
	b.l, b.rng, b.access = l, nil, accessStats{}
	clear(b.profile)
	for _, w := range b.warps {
		l.fillSpecial(w)
	}
	return b
}

func newBlock(l *launch) *block {
	k := l.k
	b := &block{l: l, profile: make([]Count, len(k.code)),
		shared: shared{make([]byte, k.shared), make([]byte, k.shared), make([]shadow, k.shared)}}
	for i := range l.inOrder {
		w := &warp{b: b, id: i, regs: make([]uint64, k.slots*32), preds: make([]uint32, k.preds), local: make([]byte, k.local*32)}
		l.fillSpecial(w)
		b.warps = append(b.warps, w)
	}
	return b
}

// start makes the block ready to run as another one. Memory that nobody wrote differs from what it may have held.
func (b *block) start(id uint32) {
	b.id = id
	b.threadsAlive = b.l.threads
	for _, w := range b.warps {
		b.before = max(b.before, w.tick)
	}
	for i := range b.shared.written {
		b.shared.written[i] = 0
		b.shared.data[i] = 0xa5
	}
	if seed := b.l.d.opts.Seed; seed != 0 {
		b.rng = rand.New(rand.NewPCG(seed, uint64(id)))
	}
	for i, w := range b.warps {
		w.alive = full
		if rest := b.l.threads - i*32; rest < 32 {
			w.alive = 1<<rest - 1
		}
		w.ready = w.alive
		w.tick, w.met, w.parted = b.before+1, 0, false
		for l := range 32 {
			w.pcs[l], w.waiting[l] = 0, nil
			w.regs[spCtaid+l] = uint64(id)
		}
		for j := range w.local {
			w.local[j] = 0xa5
		}
	}
}

// run executes the block to its end.
func (b *block) run() {
	for b.threadsAlive > 0 {
		progress := false
		order := b.l.inOrder
		if b.rng != nil {
			order = b.rng.Perm(len(b.warps))
		}
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
		}
		if !progress && b.threadsAlive > 0 {
			b.deadlock()
		}
	}
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
