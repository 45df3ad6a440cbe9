package ptxvm

import (
	"fmt"
	"slices"
	"sort"
	"sync"
)

// Options of a device. The zero value gives the same result each time.
type Options struct {
	// Workers is how many blocks run at a time; 0 is 1.
	Workers int
	// Seed other than 0 shuffles the order of blocks, of warps and of parted lanes, so that what depends on it shows.
	// With 0 blocks go up, a warp runs until it must wait, and lanes meet as early as possible: Stats are of that.
	Seed uint64
	// MaxInstructions of warps in one launch; 0 is 1<<30.
	MaxInstructions uint64
	// OnlySyncwarp has the race check count only bar.warp.sync among what lanes wait at, as CUDA's manual does. Otherwise
	// shfl.sync, vote.sync and the other collectives order memory accesses too, as hardware does.
	OnlySyncwarp bool
}

// A Device is memory, and how kernels are run in it. Its methods may be called at the same time, but for Free and
// Write of memory that a launch uses.
type Device struct {
	opts Options

	mu     sync.RWMutex
	allocs []*alloc // by address, freed ones too: addresses are not used again
	next   uint64
	locks  [64]sync.Mutex // of atomics, by address
}

// An alloc is one allocation. written has a byte for each byte: bits would be shared by blocks.
type alloc struct {
	base    uint64
	data    []byte
	written []byte
	name    string // of a module's variable
	freed   bool
}

// maxShared is how much shared memory a block may have: what a kernel has without asking the driver.
const maxShared = 48 << 10

// gap is the least distance of allocations. Addresses cost nothing, so that overruns never meet a neighbour.
const gap = 1 << 32

// NewDevice returns an empty device.
func NewDevice(opts Options) *Device {
	if opts.Workers <= 0 {
		opts.Workers = 1
	}
	if opts.MaxInstructions == 0 {
		opts.MaxInstructions = 1 << 30
	}
	return &Device{opts: opts, next: firstGlobal}
}

// Alloc returns the address of new memory that nothing was written to. It is a multiple of alignment and, so that
// kernels cannot rely on more, not of twice the alignment. Alignment is a power of two; drivers give 256.
func (d *Device) Alloc(size, alignment int) (uint64, error) {
	if size < 0 || alignment <= 0 || alignment&(alignment-1) != 0 {
		return 0, fmt.Errorf("allocation of %d bytes, aligned to %d", size, alignment)
	}
	return d.alloc(size, alignment).base, nil
}

func (d *Device) alloc(size, alignment int) *alloc {
	d.mu.Lock()
	defer d.mu.Unlock()
	a := &alloc{base: d.next + uint64(alignment), data: make([]byte, size), written: make([]byte, size)}
	d.allocs = append(d.allocs, a)
	d.next += (uint64(size)+uint64(alignment))/gap*gap + 2*gap
	return a
}

// Free ends an allocation. Its address is not used again.
func (d *Device) Free(addr uint64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	a := d.find(addr)
	if a == nil || a.base != addr || a.freed || a.name != "" {
		return fmt.Errorf("free of %#x, which is not allocated", addr)
	}
	a.freed, a.data, a.written = true, nil, nil
	return nil
}

// find returns the allocation at or before an address.
func (d *Device) find(addr uint64) *alloc {
	i := sort.Search(len(d.allocs), func(i int) bool { return d.allocs[i].base > addr })
	if i == 0 {
		return nil
	}
	return d.allocs[i-1]
}

// host returns memory for a copy from or to the host.
func (d *Device) host(addr uint64, n int) (data, written []byte, err error) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	a := d.find(addr)
	switch {
	case a == nil:
		return nil, nil, fmt.Errorf("%#x is not allocated", addr)
	case a.freed:
		return nil, nil, fmt.Errorf("%#x was freed", addr)
	}
	off := addr - a.base
	if off > uint64(len(a.data)) || uint64(n) > uint64(len(a.data))-off {
		return nil, nil, fmt.Errorf("%d bytes at %#x, byte %d of an allocation of %d", n, addr, off, len(a.data))
	}
	return a.data[off : off+uint64(n)], a.written[off : off+uint64(n)], nil
}

// Write copies from the host.
func (d *Device) Write(addr uint64, p []byte) error {
	data, written, err := d.host(addr, len(p))
	if err != nil {
		return fmt.Errorf("write to the device: %w", err)
	}
	copy(data, p)
	set(written)
	return nil
}

// Fill sets n bytes.
func (d *Device) Fill(addr uint64, value byte, n int) error {
	data, written, err := d.host(addr, n)
	if err != nil {
		return fmt.Errorf("fill: %w", err)
	}
	for i := range data {
		data[i] = value
	}
	set(written)
	return nil
}

// Read copies to the host. Bytes that were never written are an error, as for a kernel.
func (d *Device) Read(addr uint64, p []byte) error {
	data, written, err := d.host(addr, len(p))
	if err != nil {
		return fmt.Errorf("read from the device: %w", err)
	}
	if i := unwritten(written); i >= 0 {
		return fmt.Errorf("read from the device: %s: byte %d of the %d at %#x", Uninitialised, i, len(p), addr)
	}
	copy(p, data)
	return nil
}

func set(b []byte) {
	for i := range b {
		b[i] = 1
	}
}

// Count is how often something was executed, by warps and by lanes that were not masked.
type Count struct{ Warps, Lanes uint64 }

// Stats is what a launch did.
type Stats struct {
	Total Count
	Lines []LineCount // in the order of the text

	GlobalAccesses uint64 // instructions of warps
	GlobalSectors  uint64 // of 32 bytes, that these touch
	SharedAccesses uint64
	BankConflicts  uint64 // cycles more than one each, for 32 banks of 4 bytes
}

// A LineCount is how often one instruction was executed.
type LineCount struct {
	Line int // of the PTX text
	Count
}

// accessStats is the part that is counted while a block runs.
type accessStats struct{ accesses, sectors, shared, conflicts uint64 }

func newStats(k *kernel) *Stats {
	s := &Stats{Lines: make([]LineCount, len(k.code))}
	for i, in := range k.code {
		s.Lines[i].Line = in.line
	}
	return s
}

func (s *Stats) add(b *block) {
	for i, c := range b.profile {
		for _, t := range [...]*Count{&s.Lines[i].Count, &s.Total} {
			t.Warps += c.Warps
			t.Lanes += c.Lanes
		}
	}
	s.GlobalAccesses += b.access.accesses
	s.GlobalSectors += b.access.sectors
	s.SharedAccesses += b.access.shared
	s.BankConflicts += b.access.conflicts
}

// countAccess counts an access of the lanes of m to n bytes each.
func (w *warp) countAccess(in *instr, m uint32, n int) {
	s, reg := &w.b.access, w.lane32(in.a)
	switch in.space {
	case spGlobal:
		s.accesses++
		s.sectors += sectors(reg, in.off, m)
	case spShared:
		s.shared++
		s.conflicts += conflicts(reg, in.off, m, n)
	}
}

// sectors returns how many an access touches; it is aligned and no larger than one.
func sectors(reg *[32]uint64, off uint64, m uint32) uint64 {
	var seen [32]uint64
	k := 0
next:
	for ; m != 0; m &= m - 1 {
		s := (reg[first(m)&31]+off)>>5 + 1
		for i := k - 1; i >= 0; i-- {
			if seen[i] == s {
				continue next
			}
		}
		seen[k] = s
		k++
	}
	return uint64(k)
}

// conflicts returns the cycles above one: lanes that want different words of a bank take turns. Accesses of 8 bytes
// are two of half the lanes, those of 16 four of a quarter.
func conflicts(reg *[32]uint64, off uint64, m uint32, n int) uint64 {
	words := max(n/4, 1)
	part := 32 / words
	extra := uint64(0)
	for at := 0; at < 32; at += part {
		var bank [32]uint8    // words wanted of each
		var head [32]uint64   // the first of them
		var others [32]uint64 // those that are not first
		k, most := 0, uint8(0)
		sub := m >> at << at
		if at+part < 32 {
			sub &= 1<<(at+part) - 1
		}
		for ; sub != 0; sub &= sub - 1 {
			first := (reg[first(sub)&31]+off)>>2 + 1
			for v := first; v < first+uint64(words); v++ {
				i := v & 31
				switch {
				case bank[i] == 0:
					head[i] = v
				case head[i] == v || slices.Contains(others[:k], v):
					continue
				default:
					others[k] = v
					k++
				}
				bank[i]++
				most = max(most, bank[i])
			}
		}
		if most > 1 {
			extra += uint64(most - 1)
		}
	}
	return extra
}
