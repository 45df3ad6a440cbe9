package ptxvm

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
)

func unwritten(b []byte) int { return bytes.IndexByte(b, 0) }

// checkAligned fails unless an address is a multiple of the access's size.
func (w *warp) checkAligned(lane int, addr uint64, size int) {
	if addr&uint64(size-1) != 0 {
		w.fail(Misaligned, lane, addr, "%d bytes at %#x", size, addr)
	}
}

// memory returns the n bytes a lane accesses, after all checks but alignment.
func (w *warp) memory(sp space, lane int, addr uint64, n int, write bool) []byte {
	switch sp {
	case spGlobal:
		return w.global(lane, addr, n, write)
	case spShared:
		return w.sharedMemory(lane, addr, n, write)
	case spParam:
		p := w.b.l.params
		if write || addr+uint64(n) > uint64(len(p)) {
			w.fail(OutOfBounds, lane, addr, "%d bytes at %#x of %d bytes of parameters", n, addr, len(p))
		}
		return p[addr : addr+uint64(n)]
	}
	size := uint64(w.b.l.k.local)
	if addr >= size || uint64(n) > size-addr {
		w.fail(OutOfBounds, lane, addr, "%d bytes at %#x of %d bytes of local memory", n, addr, size)
	}
	at := uint64(lane)*size + addr
	return w.local[at : at+uint64(n)]
}

func (w *warp) global(lane int, addr uint64, n int, write bool) []byte {
	a := w.last
	if a == nil || addr-a.base >= uint64(len(a.data)) {
		if a = w.b.l.d.find(addr); a != nil {
			w.last = a
		}
	}
	if a == nil {
		w.fail(OutOfBounds, lane, addr, "%d bytes at %#x, where nothing is allocated", n, addr)
	}
	off := addr - a.base
	if off >= uint64(len(a.data)) || uint64(n) > uint64(len(a.data))-off {
		if a.freed {
			w.fail(Freed, lane, addr, "%d bytes at %#x", n, addr)
		}
		if off >= gap {
			w.fail(OutOfBounds, lane, addr, "%d bytes at %#x, where nothing is allocated", n, addr)
		}
		w.fail(OutOfBounds, lane, addr, "%d bytes at %#x, byte %d of %s of %d", n, addr, off, a.what(), len(a.data))
	}
	wr := a.written[off : off+uint64(n)]
	if write {
		set(wr)
	} else if i := unwritten(wr); i >= 0 {
		w.fail(Uninitialised, lane, addr, "byte %d of %s of %d", off+uint64(i), a.what(), len(a.data))
	}
	return a.data[off : off+uint64(n)]
}

func (a *alloc) what() string {
	if a.name != "" {
		return a.name
	}
	return "an allocation"
}

func (w *warp) sharedMemory(lane int, addr uint64, n int, write bool) []byte {
	s := &w.b.shared
	if size := uint64(len(s.data)); addr >= size || uint64(n) > size-addr {
		w.fail(OutOfBounds, lane, addr, "%d bytes at %#x of %d bytes of shared memory", n, addr, size)
	}
	end := addr + uint64(n)
	if write {
		set(s.written[addr:end])
	} else if i := unwritten(s.written[addr:end]); i >= 0 {
		w.fail(Uninitialised, lane, addr, "byte %#x of shared memory", addr+uint64(i))
	}
	w.checkRace(lane, addr, n, write)
	return s.data[addr:end]
}

func get(b []byte) uint64 {
	switch len(b) {
	case 1:
		return uint64(b[0])
	case 2:
		return uint64(binary.LittleEndian.Uint16(b))
	case 4:
		return uint64(binary.LittleEndian.Uint32(b))
	}
	return binary.LittleEndian.Uint64(b)
}

func put(b []byte, v uint64) {
	switch len(b) {
	case 1:
		b[0] = byte(v)
	case 2:
		binary.LittleEndian.PutUint16(b, uint16(v))
	case 4:
		binary.LittleEndian.PutUint32(b, uint32(v))
	default:
		binary.LittleEndian.PutUint64(b, v)
	}
}

func runLoad(w *warp, in *instr, m uint32) {
	n := in.size * len(in.vec)
	w.countAccess(in, m, n)
	for l := range lanes(m) {
		addr := w.regs[in.a+l] + in.off
		if addr&uint64(n-1) != 0 {
			w.checkAligned(l, addr, n)
		}
		if in.space == spGlobal {
			w.locked(addr, func() { w.load(in, l, addr, n) })
		} else {
			w.load(in, l, addr, n)
		}
	}
}

func (w *warp) load(in *instr, l int, addr uint64, n int) {
	b := w.memory(in.space, l, addr, n, false)
	for i, dst := range in.vec {
		v := get(b[i*in.size : (i+1)*in.size])
		if in.sext {
			v = uint64(signed(v, in.size)) & in.mask
		}
		w.regs[dst+l] = v
	}
}

func runStore(w *warp, in *instr, m uint32) {
	n := in.size * len(in.vec)
	w.countAccess(in, m, n)
	for l := range lanes(m) {
		addr := w.regs[in.a+l] + in.off
		if addr&uint64(n-1) != 0 {
			w.checkAligned(l, addr, n)
		}
		if in.space == spGlobal {
			w.locked(addr, func() { w.store(in, l, addr, n) })
		} else {
			w.store(in, l, addr, n)
		}
	}
}

func (w *warp) store(in *instr, l int, addr uint64, n int) {
	for i, src := range in.vec {
		put(w.value[i*in.size:(i+1)*in.size], w.regs[src+l])
	}
	copy(w.memory(in.space, l, addr, n, true), w.value[:n])
}

// locked is for what blocks of other workers may access at the same time. That they may not, other than by atomics, is
// the kernel's mistake; it must not become one of this package's. No access crosses 16 bytes.
func (w *warp) locked(addr uint64, f func()) {
	if w.b.l.workers == 1 {
		f()
		return
	}
	mu := &w.b.l.d.locks[addr>>4%uint64(len(w.b.l.d.locks))]
	mu.Lock()
	defer mu.Unlock() // f may fail
	f()
}

func runAtomic(w *warp, in *instr, m uint32) {
	w.countAccess(in, m, in.size)
	for l := range lanes(m) {
		addr := w.regs[in.a+l] + in.off
		w.checkAligned(l, addr, in.size)
		w.locked(addr, func() {
			old := get(w.global(l, addr, in.size, false))
			put(w.global(l, addr, in.size, true), in.f2(old, w.regs[in.b+l]))
		})
	}
}

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

// gather lets lanes wait for the others of their mask. It returns true if they need not.
func (w *warp) gather(in *instr, m uint32) bool {
	mask := w.lane32(in.members)
	uniform := true
	for l := range lanes(m) {
		if mask[l]>>l&1 == 0 {
			w.fail(BadMask, l, 0, "lane %d is not in its mask %#08x", l, mask[l])
		}
		uniform = uniform && mask[l] == mask[first(m)]
		w.waiting[l], w.members[l] = in, uint32(mask[l])
	}
	if uniform && uint32(mask[first(m)])&w.alive == m {
		w.collect(m)
		return true
	}
	w.ready &^= m
	w.release()
	return false
}

// release lets those lanes go on for which nobody is missing.
func (w *warp) release() {
	for l := range lanes(w.alive &^ w.ready) {
		in := w.waiting[l]
		if in == nil {
			continue
		}
		need := w.members[l] & w.alive
		there := uint32(0)
		for j := range lanes(need &^ w.ready) {
			if o := w.waiting[j]; o != nil && o.sort == in.sort && w.members[j] == w.members[l] {
				there |= 1 << j
			}
		}
		if there == need {
			w.collect(need)
			w.ready |= need
		}
	}
}

// collect executes the instruction that the lanes wait at.
func (w *warp) collect(m uint32) {
	var a, b, c, out [32]uint64
	for l := range lanes(m) {
		in := w.waiting[l]
		a[l], b[l], c[l] = w.regs[in.a+l], w.regs[in.b+l], w.regs[in.c+l]
		if in.pa >= 0 {
			a[l] = uint64((w.preds[in.pa] ^ in.pax) >> l & 1)
		}
	}
	in := w.waiting[first(m)]
	var p uint32
	if in.collect != nil {
		p = in.collect(m, &a, &b, &c, &out)
	}
	for l := range lanes(m) {
		o := w.waiting[l]
		if o.dst >= 0 {
			w.regs[o.dst+l] = out[l]
		}
		w.setPred(o.pd, 1<<l, p)
		w.waiting[l] = nil
	}
	if in.barrier || !w.b.l.d.opts.OnlySyncwarp {
		w.meet(m)
	}
}
