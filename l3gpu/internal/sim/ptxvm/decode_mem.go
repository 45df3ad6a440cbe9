package ptxvm

import (
	"slices"
	"strings"
)

// memoryOp reads the modifiers of ld, st and red, and returns those that it does not know, the type last.
func (d *decoder) memoryOp() (rest []string, vec int) {
	vec = 1
	for _, m := range d.op[1:] {
		switch sp := spaceOf[m]; {
		case sp != spNone:
			d.in.space = sp
		case m == "v2":
			vec = 2
		case m == "v4":
			vec = 4
		case m == "nc" || strings.HasPrefix(m, "L1::") || strings.HasPrefix(m, "L2::"): // which cache
		default:
			rest = append(rest, m)
		}
	}
	return rest, vec
}

// access decodes what ld and st share: the type, the address and the list of registers.
func (d *decoder) access(address, data int) (list []operand, typ string, err error) {
	rest, vec := d.memoryOp()
	if len(rest) != 1 || typeSize(rest[0]) == 0 || typeSize(rest[0])*vec > 16 || d.in.space == spNone {
		return nil, "", d.unknown()
	}
	if err := d.nargs(2); err != nil {
		return nil, "", err
	}
	d.in.size = typeSize(rest[0])
	list = []operand{d.st.args[data]}
	if vec > 1 {
		list = d.st.args[data].list
	}
	if len(list) != vec {
		return nil, "", d.errf("%d registers instead of %d", len(list), vec)
	}
	return list, rest[0], d.address(d.st.args[address])
}

func (d *decoder) load() error {
	list, typ, err := d.access(1, 0)
	if err != nil {
		return err
	}
	d.in.sext = isSigned(typ)
	for _, o := range list {
		r, err := d.dest(o)
		if err != nil {
			return err
		}
		if r.size < d.in.size {
			return d.errf("register %s is too small", o.name)
		}
		d.in.vec = append(d.in.vec, r.slot)
		d.in.mask = sizeMask(r.size)
	}
	d.in.run = runLoad
	return d.emit()
}

func (d *decoder) store() error {
	list, typ, err := d.access(0, 1)
	if err != nil {
		return err
	}
	for _, o := range list {
		s, err := d.src(o, typ)
		if err != nil {
			return err
		}
		d.in.vec = append(d.in.vec, s)
	}
	d.in.run = runStore
	return d.emit()
}

// red.global.OP.TYPE [a], b
func (d *decoder) red() error {
	rest, vec := d.memoryOp()
	if vec != 1 || len(rest) != 2 || typeSize(rest[1]) < 4 || isFloat(rest[1]) || d.in.space != spGlobal {
		return d.unknown()
	}
	if err := d.nargs(2); err != nil {
		return err
	}
	op, typ := rest[0], rest[1]
	f, ok := intOp(op, nil, typ)
	if !ok || !slices.Contains([]string{"add", "min", "max", "and", "or", "xor"}, op) {
		return d.unknown()
	}
	d.in.f2, d.in.size = f.f2, typeSize(typ)
	if err := d.address(d.st.args[0]); err != nil {
		return err
	}
	var err error
	if d.in.b, err = d.src(d.st.args[1], typ); err != nil {
		return err
	}
	d.in.run = runAtomic
	return d.emit()
}

// A gather is an instruction for which lanes wait for each other: those of the member mask that have not exited, at an
// instruction of the same sort. Its sources are those of each lane's own instruction.
type gather struct {
	members int    // slot of the mask
	sort    string // of the instruction
	barrier bool   // bar.warp.sync
	collect func(m uint32, a, b, c, out *[32]uint64) (pred uint32)
}

func (d *decoder) gathering(members operand, f func(m uint32, a, b, c, out *[32]uint64) uint32) error {
	s, err := d.src(members, "b32")
	if err != nil {
		return err
	}
	d.in.kind = inGather
	d.in.gather = gather{members: s, sort: d.st.op, barrier: f == nil, collect: f}
	return d.emit()
}

func (d *decoder) nargs(n int) error {
	if len(d.st.args) != n {
		return d.errf("%d operands instead of %d", len(d.st.args), n)
	}
	return nil
}

// bar.warp.sync members
func (d *decoder) syncwarp() error {
	if d.st.op != "bar.warp.sync" {
		return d.unknown()
	}
	if err := d.nargs(1); err != nil {
		return err
	}
	d.in.dst = -1
	return d.gathering(d.st.args[0], nil)
}

// poison is what a lane gets from one that takes no part.
const poison = 0xdeadbeef

// shfl.sync.MODE.b32 d{|p}, a, b, c, members
func (d *decoder) shfl() error {
	if len(d.op) != 4 || d.op[1] != "sync" || d.op[3] != "b32" {
		return d.unknown()
	}
	if err := d.nargs(5); err != nil {
		return err
	}
	o := d.st.args[0]
	var err error
	if o.kind == opPair {
		if d.in.pd, _, err = d.predicate(o.list[1]); err != nil {
			return err
		}
		o = o.list[0]
	}
	r, err := d.dest(o)
	if err != nil {
		return err
	}
	d.in.dst = r.slot
	for i, p := range []*int{&d.in.a, &d.in.b, &d.in.c} {
		if *p, err = d.src(d.st.args[i+1], "b32"); err != nil {
			return err
		}
	}
	var from func(l, by, segment, top int) (j int, ok bool)
	switch d.op[2] {
	case "up":
		from = func(l, by, _, top int) (int, bool) { return l - by, l-by >= top }
	case "down":
		from = func(l, by, _, top int) (int, bool) { return l + by, l+by <= top }
	case "bfly":
		from = func(l, by, _, top int) (int, bool) { return l ^ by, l^by <= top }
	case "idx":
		from = func(l, by, segment, top int) (int, bool) {
			j := l&segment | by&^segment
			return j, j <= top
		}
	default:
		return d.unknown()
	}
	return d.gathering(d.st.args[4], func(m uint32, a, b, c, out *[32]uint64) uint32 {
		var in uint32
		for l := range lanes(m) {
			segment, clamp := int(c[l]>>8&31), int(c[l]&31)
			j, ok := from(l, int(b[l]&31), segment, l&segment|clamp&^segment)
			if !ok {
				j = l
			} else {
				in |= 1 << l
			}
			if out[l] = poison; m>>j&1 != 0 {
				out[l] = a[j]
			}
		}
		return in
	})
}

// vote.sync.any.pred d, {!}p, members, or all in the place of any
func (d *decoder) vote() error {
	some := d.st.op == "vote.sync.any.pred"
	if !some && d.st.op != "vote.sync.all.pred" {
		return d.unknown()
	}
	if err := d.nargs(3); err != nil {
		return err
	}
	d.in.dst = -1
	var err error
	if d.in.pd, _, err = d.predicate(d.st.args[0]); err != nil {
		return err
	}
	if d.in.pa, d.in.pax, err = d.predicate(d.st.args[1]); err != nil {
		return err
	}
	return d.gathering(d.st.args[2], func(m uint32, a, _, _, _ *[32]uint64) uint32 {
		var v uint32
		for l := range lanes(m) {
			v |= uint32(a[l]) << l
		}
		if some && v != 0 || v == m {
			return full
		}
		return 0
	})
}

// redux.sync.add.u32 d, a, members
func (d *decoder) redux() error {
	if d.st.op != "redux.sync.add.u32" {
		return d.unknown()
	}
	if err := d.nargs(3); err != nil {
		return err
	}
	if err := d.destination(); err != nil {
		return err
	}
	var err error
	if d.in.a, err = d.src(d.st.args[1], "u32"); err != nil {
		return err
	}
	return d.gathering(d.st.args[2], func(m uint32, a, _, _, out *[32]uint64) uint32 {
		var sum uint32
		for l := range lanes(m) {
			sum += uint32(a[l])
		}
		for l := range lanes(m) {
			out[l] = uint64(sum)
		}
		return 0
	})
}
