package ptxvm

import "math"

func (d *decoder) mov() error {
	typ := d.op[len(d.op)-1]
	if err := d.nargs(2); err != nil {
		return err
	}
	src := d.st.args[1]
	switch {
	case typ == "pred":
		return d.logic("mov")
	case typeSize(typ) == 0 || len(d.op) != 2:
		return d.unknown()
	case src.kind == opVec:
		return d.pack(src.list, typ)
	}
	if err := d.destination(); err != nil {
		return err
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

// cvt.TO.FROM of integers, and of numbers to those of fewer digits, to the nearest.
func (d *decoder) cvt() error {
	n := len(d.op)
	if n < 3 || typeSize(d.op[n-2]) == 0 || typeSize(d.op[n-1]) == 0 {
		return d.unknown()
	}
	to, from := d.op[n-2], d.op[n-1]
	if err := d.destination(); err != nil {
		return err
	}
	if err := d.sources(from); err != nil {
		return err
	}
	ts, fs, mask := typeSize(to), typeSize(from), d.in.mask
	var f func(a uint64) uint64
	switch {
	case n == 3 && !isFloat(to) && !isFloat(from):
		f = func(a uint64) uint64 {
			if a &= sizeMask(fs); isSigned(from) {
				a = uint64(signed(a, fs))
			}
			if isSigned(to) { // extended to its register; an unsigned one ends at its type
				return uint64(signed(a, ts)) & mask
			}
			return a & sizeMask(ts)
		}
		if !isSigned(from) && !isSigned(to) {
			keep := sizeMask(min(fs, ts))
			f = func(a uint64) uint64 { return a & keep }
		}
	case d.st.op == "cvt.rn.f32.u32":
		f = func(a uint64) uint64 { return uint64(math.Float32bits(float32(uint32(a)))) }
	case d.st.op == "cvt.rn.f16.f32":
		f = func(a uint64) uint64 { return toHalf(float64(math.Float32frombits(uint32(a)))) }
	default:
		return d.unknown()
	}
	d.in.f1, d.in.run = f, run1
	return d.emit()
}

// toHalf encodes a number of 16 bits, to the nearest, of two the even one.
func toHalf(f float64) uint64 {
	const fraction, bias, infinity = 10, 15, 0x7c00
	if f != f {
		return 0x7fff
	}
	s := math.Float64bits(f) >> 63 << 15
	f = math.Abs(f)
	e := max(math.Ilogb(f), 1-bias)
	switch {
	case f == 0:
		return s
	case e > bias:
		return s | infinity
	}
	m := uint64(math.RoundToEven(math.Ldexp(f, fraction-e))) // with the leading one, unless subnormal
	return s | min(uint64(e+bias-1)<<fraction+m, infinity)
}

// firstGlobal is where global memory begins. Shared and local memory and parameters have addresses of their own, from 0.
const firstGlobal = 0x7f00 << 32

// cvta.to.global.u64: generic addresses of other spaces are not known.
func (d *decoder) cvta() error {
	if d.st.op != "cvta.to.global.u64" {
		return d.unknown()
	}
	return d.alu(one("u64", func(a uint64) uint64 { return a }))
}
