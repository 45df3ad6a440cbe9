package ptxvm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
)

// A Program is a module loaded into a device.
type Program struct {
	d     *Device
	m     *Module
	addrs map[*variable]uint64
}

// Load gives the module's variables their memory, and initial values.
func (d *Device) Load(m *Module) (*Program, error) {
	p := &Program{d: d, m: m, addrs: map[*variable]uint64{}}
	for _, v := range m.vars {
		if v.space != spGlobal && v.space != spConst {
			continue
		}
		a := d.alloc(v.size, max(v.align, 1))
		a.name, a.constant = v.name, v.space == spConst
		copy(a.data, v.init)
		set(a.written) // without an initialiser they are zeros
		p.addrs[v] = a.base
	}
	for v, addr := range p.addrs {
		for _, r := range v.refs {
			t := m.globals[r.symbol]
			if t == nil || p.addrs[t] == 0 {
				return nil, fmt.Errorf("ptx line %d: address of %s, which is no variable", v.line, r.symbol)
			}
			binary.LittleEndian.PutUint64(d.find(addr).data[r.at:], p.addrs[t]+uint64(r.add))
		}
	}
	return p, nil
}

// Symbol returns the address and the size of a global or constant variable.
func (p *Program) Symbol(name string) (addr uint64, size int, ok bool) {
	v := p.m.globals[name]
	if v == nil || p.addrs[v] == 0 {
		return 0, 0, false
	}
	return p.addrs[v], v.size, true
}

// Module returns what was loaded.
func (p *Program) Module() *Module { return p.m }

// Pack lays out parameters for Launch: one slice for each, of its size.
func (p *Program) Pack(entry string, params ...[]byte) ([]byte, error) {
	k := p.m.kernels[entry]
	if k == nil {
		return nil, fmt.Errorf("there is no entry %s", entry)
	}
	if len(params) != len(k.params) {
		return nil, fmt.Errorf("%s: %d parameters instead of %d", entry, len(params), len(k.params))
	}
	buf := make([]byte, k.paramSize)
	for i, q := range k.params {
		if len(params[i]) != q.Size {
			return nil, fmt.Errorf("%s: parameter %d has %d bytes instead of %d", entry, i, len(params[i]), q.Size)
		}
		copy(buf[q.Offset:], params[i])
	}
	return buf, nil
}

// U32 and U64 are parameters for Pack.
func U32(v uint32) []byte { return binary.LittleEndian.AppendUint32(nil, v) }

// U64 is a number or an address of 64 bits.
func U64(v uint64) []byte { return binary.LittleEndian.AppendUint64(nil, v) }

// A launch is a kernel being run.
type launch struct {
	d          *Device
	p          *Program
	k          *kernel
	grid       [3]uint32
	block      [3]uint32
	dynamic    int
	sharedSize int
	params     []byte
	inOrder    []int // of warps
	workers    int
	spent      atomic.Uint64
	failed     atomic.Bool
}

// Launch runs an entry: grid blocks of so many threads, with dynamic bytes of shared memory each and parameters laid out
// as the entry has them. An error of the kernel is a *Fault; what the kernel did before stays done.
func (p *Program) Launch(entry string, grid, threads [3]uint32, dynamic uint32, params []byte) (*Stats, error) {
	l := &launch{d: p.d, p: p, k: p.m.kernels[entry], grid: grid, block: threads, dynamic: int(dynamic), params: params}
	if err := l.check(entry); err != nil {
		return nil, err
	}
	d := p.d
	d.mu.RLock()
	defer d.mu.RUnlock()
	n := uint64(grid[0]) * uint64(grid[1]) * uint64(grid[2])
	order := func(i uint64) uint64 { return i }
	if d.opts.Seed != 0 {
		order = shuffled(d.opts.Seed, n)
	}
	l.workers = int(min(uint64(d.opts.Workers), n))
	var next atomic.Uint64
	var wg sync.WaitGroup
	blocks := make([]*block, l.workers)
	errs := make([]error, l.workers)
	for i := range l.workers {
		wg.Go(func() {
			b := takeBlock(l)
			blocks[i] = b
			for !l.failed.Load() {
				at := next.Add(1) - 1
				if at >= n {
					return
				}
				at = order(at)
				x, y := at%uint64(grid[0]), at/uint64(grid[0])
				id := [3]uint32{uint32(x), uint32(y % uint64(grid[1])), uint32(y / uint64(grid[1]))}
				if errs[i] = b.runSafely(id, at); errs[i] != nil {
					l.failed.Store(true)
					return
				}
			}
		})
	}
	wg.Wait()
	st := newStats(l.k)
	for _, b := range blocks {
		st.add(b)
		b.l = nil
		for _, w := range b.warps {
			w.last = nil
		}
		l.k.pool.Put(b)
	}
	for _, err := range errs {
		var f *Fault
		if err != nil && !(errors.As(err, &f) && f.Kind == stopped) {
			return st, err
		}
	}
	return st, nil
}

// runSafely turns a fault into an error.
func (b *block) runSafely(id [3]uint32, n uint64) (err error) {
	defer func() {
		if r := recover(); r != nil {
			f, ok := r.(*Fault)
			if !ok {
				panic(r)
			}
			err = f
		}
	}()
	b.start(id, n)
	b.run()
	return nil
}

func (l *launch) check(entry string) error {
	k := l.k
	if k == nil {
		return fmt.Errorf("there is no entry %s", entry)
	}
	threads := uint64(1)
	for i := range 3 {
		if l.grid[i] == 0 || l.block[i] == 0 || l.block[i] > 1024 {
			return fmt.Errorf("%s: grid %v of blocks %v", entry, l.grid, l.block)
		}
		threads *= uint64(l.block[i])
	}
	if threads > 1024 || k.maxThreads > 0 && threads > uint64(k.maxThreads) || k.exactly && threads != uint64(k.maxThreads) {
		return fmt.Errorf("%s: %d threads in a block; the kernel allows %d, any GPU 1024", entry, threads, k.maxThreads)
	}
	if len(l.params) != k.paramSize {
		return fmt.Errorf("%s: %d bytes of parameters instead of %d", entry, len(l.params), k.paramSize)
	}
	l.sharedSize = align(k.shared, k.dynAlign) + l.dynamic
	if l.dynamic == 0 {
		l.sharedSize = k.shared
	}
	if l.sharedSize > l.d.opts.MaxShared {
		return fmt.Errorf("%s: %d bytes of shared memory, a block has %d", entry, l.sharedSize, l.d.opts.MaxShared)
	}
	for i := range (int(threads) + 31) / 32 {
		l.inOrder = append(l.inOrder, i)
	}
	return nil
}

// spend fails when the launch has had all its instructions.
func (l *launch) spend(w *warp, n int) {
	if l.spent.Add(uint64(n)) > l.d.opts.MaxInstructions {
		w.fail(Budget, first(w.alive|1<<31), 0, "more than %d of warps", l.d.opts.MaxInstructions)
	}
	if l.failed.Load() { // elsewhere
		panic(&Fault{Kind: stopped, Kernel: l.k.name, Block: w.b.id, Detail: "another block failed"})
	}
}

func (l *launch) threadAt(i int) [3]uint32 {
	n := uint32(i)
	return [3]uint32{n % l.block[0], n / l.block[0] % l.block[1], n / l.block[0] / l.block[1]}
}

// fillSpecial sets what is the same for all blocks: constants, and special registers other than %ctaid.
func (l *launch) fillSpecial(w *warp) {
	put := func(slot, lane int, v uint64) { w.regs[slot+lane] = v }
	for lane := range 32 {
		t := l.threadAt(w.id*32 + lane)
		for i := range 3 {
			put(spTid+32*i, lane, uint64(t[i]))
			put(spNtid+32*i, lane, uint64(l.block[i]))
			put(spNctaid+32*i, lane, uint64(l.grid[i]))
		}
		put(spLane, lane, uint64(lane))
		put(spWarp, lane, uint64(w.id))
		put(spNwarp, lane, uint64(len(l.inOrder)))
		bit := uint32(1) << lane
		put(spMaskEq, lane, uint64(bit))
		put(spMaskLe, lane, uint64(bit|(bit-1)))
		put(spMaskLt, lane, uint64(bit-1))
		put(spMaskGe, lane, uint64(-bit))
		put(spMaskGt, lane, uint64(-bit&^bit))
		put(spDynShared, lane, uint64(l.dynamic))
		put(spTotalShared, lane, uint64(l.sharedSize))
		for _, c := range l.k.consts {
			put(c.slot, lane, c.value+l.address(c.v))
		}
	}
}

// address returns a variable's place in its space.
func (l *launch) address(v *variable) uint64 {
	switch {
	case v == nil:
		return 0
	case v.space == spGlobal || v.space == spConst:
		return l.p.addrs[v]
	case v.extern:
		return uint64(align(l.k.shared, l.k.dynAlign))
	}
	return v.offset
}

// shuffled returns a permutation of 0 to n-1 that depends on the seed.
func shuffled(seed, n uint64) func(uint64) uint64 {
	if n > 1<<20 { // too many to list: backwards
		return func(i uint64) uint64 { return n - 1 - i }
	}
	perm := rand.New(rand.NewPCG(seed, n)).Perm(int(n))
	return func(i uint64) uint64 { return uint64(perm[i]) }
}
