package ptxvm

import (
	"bytes"
	"encoding/binary"
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
