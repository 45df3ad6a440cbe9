package ptxvm

import (
	"slices"
	"strings"
)

func (d *decoder) mov() error {
	typ := d.op[len(d.op)-1]
	if len(d.st.args) != 2 {
		return d.errf("%d operands instead of 2", len(d.st.args))
	}
	dst, src := d.st.args[0], d.st.args[1]
	switch {
	case typ == "pred":
		return d.logic("mov")
	case typeSize(typ) == 0 || len(d.op) != 2:
		return d.unknown()
	case src.kind == opVec:
		return d.pack(src.list, typ)
	case dst.kind == opVec:
		return d.unpack(dst.list, src, typ)
	}
	if err := d.destination(); err != nil {
		return err
	}
	switch src.name {
	case "%clock", "%clock64", "%clock_hi", "%globaltimer", "%globaltimer_lo":
		d.in.run = func(w *warp, in *instr, m uint32) {
			for l := range lanes(m) {
				w.regs[in.dst+l] = w.clock & in.mask
			}
		}
		return d.emit()
	}
	if err := d.sources(typ); err != nil {
		return err
	}
	d.in.run = func(w *warp, in *instr, m uint32) {
		dst, a := w.lane32(in.dst), w.lane32(in.a)
		if m == full {
			*dst = *a
			return
		}
		for l := range lanes(m) {
			dst[l] = a[l]
		}
	}
	return d.emit()
}

// pack is mov.b64 %rd, {%r1, %r2}.
func (d *decoder) pack(list []operand, typ string) error {
	part := typeSize(typ) / len(list)
	if part == 0 || part > 4 {
		return d.unknown()
	}
	if err := d.destination(); err != nil {
		return err
	}
	for _, o := range list {
		s, err := d.src(o, map[int]string{1: "b8", 2: "b16", 4: "b32"}[part])
		if err != nil {
			return err
		}
		d.in.vec = append(d.in.vec, s)
	}
	d.in.size = part
	d.in.run = func(w *warp, in *instr, m uint32) {
		for l := range lanes(m) {
			var v uint64
			for i, s := range in.vec {
				v |= w.regs[s+l] & sizeMask(in.size) << (8 * in.size * i)
			}
			w.regs[in.dst+l] = v
		}
	}
	return d.emit()
}

func (d *decoder) unpack(list []operand, src operand, typ string) error {
	part := typeSize(typ) / len(list)
	if part == 0 || part > 4 {
		return d.unknown()
	}
	var err error
	if d.in.a, err = d.src(src, typ); err != nil {
		return err
	}
	for _, o := range list {
		r, err := d.dest(o)
		if err != nil {
			return err
		}
		d.in.vec = append(d.in.vec, r.slot)
	}
	d.in.size = part
	d.in.run = func(w *warp, in *instr, m uint32) {
		for l := range lanes(m) {
			v := w.regs[in.a+l]
			for i, s := range in.vec {
				w.regs[s+l] = v >> (8 * in.size * i) & sizeMask(in.size)
			}
		}
	}
	return d.emit()
}

func (d *decoder) cvt() error {
	n := len(d.op)
	if n < 3 || typeSize(d.op[n-1]) == 0 {
		return d.unknown()
	}
	to, from := d.op[n-2], d.op[n-1]
	if err := d.destination(); err != nil {
		return err
	}
	mask := d.in.mask
	if to == "f16x2" || to == "bf16x2" { // two numbers, the first goes on top
		f, ok := convert(d.op[1:n-2], to[:len(to)-2], from)
		if !ok || from != "f32" {
			return d.unknown()
		}
		if err := d.sources(from, from); err != nil {
			return err
		}
		d.in.f2, d.in.run = func(a, b uint64) uint64 { return f(a)<<16 | f(b) }, run2
		return d.emit()
	}
	if typeSize(to) == 0 {
		return d.unknown()
	}
	f, ok := convert(d.op[1:n-2], to, from)
	if !ok {
		return d.unknown()
	}
	if err := d.sources(from); err != nil {
		return err
	}
	d.in.f1, d.in.run = func(a uint64) uint64 { return f(a) & mask }, run1
	if from[0] == 'u' && n == 3 && !isFloat(to) {
		keep := sizeMask(min(typeSize(from), typeSize(to))) & mask
		if !isSigned(to) || typeSize(to) > typeSize(from) {
			d.in.f1 = func(a uint64) uint64 { return a & keep }
		}
	}
	return d.emit()
}

// The generic addresses of shared and of local memory and of parameters are in windows; global and constant memory
// have their own addresses.
const (
	windowSize   = 1 << 32
	sharedWindow = 0x100 * windowSize
	localWindow  = 0x200 * windowSize
	paramWindow  = 0x300 * windowSize
	firstGlobal  = 0x7f00 * windowSize
)

func window(s space) uint64 {
	switch s {
	case spShared:
		return sharedWindow
	case spLocal:
		return localWindow
	case spParam:
		return paramWindow
	}
	return 0
}

func (d *decoder) cvta() error {
	mods := d.op[1:]
	to := slices.Contains(mods, "to")
	sp := spGeneric
	for _, m := range mods {
		if i := strings.Index(m, "::"); i > 0 {
			m = m[:i]
		}
		if s, ok := spaceOf[m]; ok {
			sp = s
		}
	}
	if sp == spGeneric || mods[len(mods)-1] != "u64" {
		return d.unknown()
	}
	base := window(sp)
	if to {
		base = -base
	}
	return d.alu(one("u64", func(a uint64) uint64 { return a + base }))
}

func (d *decoder) isspacep() error {
	sp, ok := spaceOf[strings.Split(d.op[1], "::")[0]]
	if !ok {
		return d.unknown()
	}
	var err error
	if d.in.pd, _, err = d.predicate(d.st.args[0]); err != nil {
		return err
	}
	if err := d.sources("u64"); err != nil {
		return err
	}
	d.in.run = func(w *warp, in *instr, m uint32) {
		var r uint32
		for l := range lanes(m) {
			a := w.regs[in.a+l]
			base := window(sp)
			if base == 0 && a >= firstGlobal || base != 0 && a-base < windowSize {
				r |= 1 << l
			}
		}
		w.setPred(in.pd, m, r)
	}
	return d.emit()
}
