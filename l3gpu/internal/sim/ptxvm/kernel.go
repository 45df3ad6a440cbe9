package ptxvm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
)

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

// A Program is a module loaded into a device.
type Program struct {
	d     *Device
	m     *Module
	addrs map[*variable]uint64
}

// Load gives the module's variables their memory, and initial values.
func (d *Device) Load(m *Module) (*Program, error) {
	p := &Program{d: d, m: m, addrs: map[*variable]uint64{}}
	for _, v := range m.globals {
		a := d.alloc(v.size, v.align)
		a.name = v.name
		copy(a.data, v.init)
		set(a.written) // without an initialiser they are zeros
		p.addrs[v] = a.base
	}
	return p, nil
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
		if len(params[i]) != q.size {
			return nil, fmt.Errorf("%s: parameter %d has %d bytes instead of %d", entry, i, len(params[i]), q.size)
		}
		copy(buf[q.offset:], params[i])
	}
	return buf, nil
}

// U32 and U64 are parameters for Pack.
func U32(v uint32) []byte { return binary.LittleEndian.AppendUint32(nil, v) }

// U64 is a number or an address of 64 bits.
func U64(v uint64) []byte { return binary.LittleEndian.AppendUint64(nil, v) }

// A launch is a kernel being run.
type launch struct {
	d       *Device
	p       *Program
	k       *kernel
	grid    uint32
	threads int // of a block
	params  []byte
	inOrder []int // of warps
	workers int
	spent   atomic.Uint64
	failed  atomic.Bool
}

// Launch runs an entry: so many blocks of so many threads, in one dimension, with parameters laid out as the entry has
// them. An error of the kernel is a *Fault; what the kernel did before stays done.
func (p *Program) Launch(entry string, blocks, threads uint32, params []byte) (*Stats, error) {
	l := &launch{d: p.d, p: p, k: p.m.kernels[entry], grid: blocks, threads: int(threads), params: params}
	if err := l.check(entry); err != nil {
		return nil, err
	}
	d := p.d
	d.mu.RLock()
	defer d.mu.RUnlock()
	order := func(i uint32) uint32 { return i }
	if d.opts.Seed != 0 {
		perm := rand.New(rand.NewPCG(d.opts.Seed, uint64(blocks))).Perm(int(blocks))
		order = func(i uint32) uint32 { return uint32(perm[i]) }
	}
	l.workers = min(d.opts.Workers, int(blocks))
	var next atomic.Uint32
	var wg sync.WaitGroup
	running := make([]*block, l.workers)
	errs := make([]error, l.workers)
	for i := range l.workers {
		wg.Go(func() {
			b := takeBlock(l)
			running[i] = b
			for !l.failed.Load() {
				at := next.Add(1) - 1
				if at >= blocks {
					return
				}
				if errs[i] = b.runSafely(order(at)); errs[i] != nil {
					l.failed.Store(true)
					return
				}
			}
		})
	}
	wg.Wait()
	st := newStats(l.k)
	for _, b := range running {
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
func (b *block) runSafely(id uint32) (err error) {
	defer func() {
		if r := recover(); r != nil {
			f, ok := r.(*Fault)
			if !ok {
				panic(r)
			}
			err = f
		}
	}()
	b.start(id)
	b.run()
	return nil
}

func (l *launch) check(entry string) error {
	k := l.k
	switch {
	case k == nil:
		return fmt.Errorf("there is no entry %s", entry)
	case l.grid == 0 || l.threads == 0 || l.threads > 1024 || k.maxThreads > 0 && l.threads > k.maxThreads:
		return fmt.Errorf("%s: %d blocks of %d threads; the kernel allows %d, any GPU 1024", entry, l.grid, l.threads, k.maxThreads)
	case len(l.params) != k.paramSize:
		return fmt.Errorf("%s: %d bytes of parameters instead of %d", entry, len(l.params), k.paramSize)
	case k.shared > maxShared:
		return fmt.Errorf("%s: %d bytes of shared memory, a block has %d", entry, k.shared, maxShared)
	}
	for i := range (l.threads + 31) / 32 {
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

// fillSpecial sets what is the same for all blocks: constants, and special registers other than %ctaid.
func (l *launch) fillSpecial(w *warp) {
	for lane := range 32 {
		w.regs[spTid+lane] = uint64(w.id*32 + lane)
		w.regs[spNtid+lane] = uint64(l.threads)
		w.regs[spNctaid+lane] = uint64(l.grid)
		w.regs[spLane+lane] = uint64(lane)
		for _, c := range l.k.consts {
			w.regs[c.slot+lane] = c.value + l.address(c.v)
		}
	}
}

// address returns a variable's place in its space.
func (l *launch) address(v *variable) uint64 {
	switch {
	case v == nil:
		return 0
	case v.space == spGlobal:
		return l.p.addrs[v]
	}
	return v.offset
}
