package ptxvm

import "strings"

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
	d.in.gather = gather{members: s, sort: d.st.op, collect: f}
	return d.emit()
}

func (d *decoder) nargs(n int) error {
	if len(d.st.args) != n {
		return d.errf("%d operands instead of %d", len(d.st.args), n)
	}
	return nil
}

// pairDestination is d{|p}
func (d *decoder) pairDestination() error {
	o := d.st.args[0]
	if o.kind == opPair {
		var err error
		if d.in.pd, _, err = d.predicate(o.list[1]); err != nil {
			return err
		}
		o = o.list[0]
	}
	r, err := d.dest(o)
	d.in.dst = r.slot
	return err
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
	if err := d.pairDestination(); err != nil {
		return err
	}
	var err error
	for i, p := range []*int{&d.in.a, &d.in.b, &d.in.c} {
		if *p, err = d.src(d.st.args[i+1], "b32"); err != nil {
			return err
		}
	}
	mode := d.op[2]
	if !strings.Contains(" up down bfly idx ", " "+mode+" ") {
		return d.unknown()
	}
	return d.gathering(d.st.args[4], func(m uint32, a, b, c, out *[32]uint64) uint32 {
		var in uint32
		for l := range lanes(m) {
			by, seg, clamp := int(b[l]&31), int(c[l]>>8&31), int(c[l]&31)
			top := l&seg | clamp&^seg
			j, ok := l, false
			switch mode {
			case "up":
				j = l - by
				ok = j >= top
			case "down":
				j = l + by
				ok = j <= top
			case "bfly":
				j = l ^ by
				ok = j <= top
			case "idx":
				j = l&seg | by&^seg
				ok = j <= top
			}
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

// vote.sync.MODE d, {!}p, members
func (d *decoder) vote() error {
	if len(d.op) != 4 || d.op[1] != "sync" {
		return d.unknown()
	}
	if err := d.nargs(3); err != nil {
		return err
	}
	var err error
	if d.in.dst = -1; d.op[2] == "ballot" {
		err = d.destination()
	} else {
		d.in.pd, _, err = d.predicate(d.st.args[0])
	}
	if err != nil {
		return err
	}
	if d.in.pa, d.in.pax, err = d.predicate(d.st.args[1]); err != nil {
		return err
	}
	mode := d.op[2]
	switch mode {
	case "all", "any", "uni", "ballot":
	default:
		return d.unknown()
	}
	return d.gathering(d.st.args[2], func(m uint32, a, _, _, out *[32]uint64) uint32 {
		var v uint32
		for l := range lanes(m) {
			v |= uint32(a[l]) << l
		}
		for l := range lanes(m) {
			out[l] = uint64(v)
		}
		if mode == "all" && v == m || mode == "any" && v != 0 || mode == "uni" && (v == m || v == 0) {
			return full
		}
		return 0
	})
}

// match.any.sync.TYPE d, a, members and match.all.sync.TYPE d{|p}, a, members
func (d *decoder) match() error {
	if len(d.op) != 4 || d.op[2] != "sync" || d.op[1] != "any" && d.op[1] != "all" {
		return d.unknown()
	}
	if err := d.nargs(3); err != nil {
		return err
	}
	if err := d.pairDestination(); err != nil {
		return err
	}
	var err error
	if d.in.a, err = d.src(d.st.args[1], d.op[3]); err != nil {
		return err
	}
	all := d.op[1] == "all"
	return d.gathering(d.st.args[2], func(m uint32, a, _, _, out *[32]uint64) uint32 {
		same := full
		for l := range lanes(m) {
			var v uint32
			for j := range lanes(m) {
				if a[j] == a[l] {
					v |= 1 << j
				}
			}
			out[l] = uint64(v)
			if v != m {
				same = 0
			}
		}
		if all {
			for l := range lanes(m) {
				out[l] = uint64(m & same)
			}
		}
		return same
	})
}

// redux.sync.OP.TYPE d, a, members
func (d *decoder) redux() error {
	if len(d.op) != 4 || d.op[1] != "sync" || typeSize(d.op[3]) != 4 {
		return d.unknown()
	}
	f, ok := intOp(d.op[2], nil, d.op[3])
	if !ok || f.f2 == nil {
		return d.unknown()
	}
	if err := d.nargs(3); err != nil {
		return err
	}
	if err := d.destination(); err != nil {
		return err
	}
	var err error
	if d.in.a, err = d.src(d.st.args[1], d.op[3]); err != nil {
		return err
	}
	return d.gathering(d.st.args[2], func(m uint32, a, _, _, out *[32]uint64) uint32 {
		v := a[first(m)]
		for l := range lanes(m & (m - 1)) {
			v = f.f2(v, a[l])
		}
		for l := range lanes(m) {
			out[l] = v
		}
		return 0
	})
}

// elect.sync d|p, members
func (d *decoder) elect() error {
	if err := d.nargs(2); err != nil {
		return err
	}
	if err := d.pairDestination(); err != nil {
		return err
	}
	return d.gathering(d.st.args[1], func(m uint32, _, _, _, out *[32]uint64) uint32 {
		for l := range lanes(m) {
			out[l] = uint64(first(m))
		}
		return m & -m
	})
}

func (d *decoder) activemask() error {
	if err := d.destination(); err != nil {
		return err
	}
	d.in.run = func(w *warp, in *instr, m uint32) {
		for l := range lanes(m) {
			w.regs[in.dst+l] = uint64(m)
		}
	}
	return d.emit()
}
