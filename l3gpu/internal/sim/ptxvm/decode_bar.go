package ptxvm

import "slices"

// A barrierOp is bar.sync, bar.arrive or bar.red: in.a is the barrier's number, in.b the number of threads or, if
// there is none, all is set.
type barrierOp struct {
	all     bool
	wait    bool
	aligned bool
	red     string // popc, and, or
}

// bar is bar.sync, bar.arrive, bar.red, bar.warp.sync and those that begin with barrier.
func (d *decoder) bar() error {
	mods := slices.DeleteFunc(slices.Clone(d.op[1:]), func(m string) bool { return m == "cta" })
	aligned := d.op[0] == "bar"
	if i := slices.Index(mods, "aligned"); i >= 0 {
		aligned = true
		mods = slices.Delete(mods, i, i+1)
	}
	if len(mods) == 0 {
		return d.unknown()
	}
	if mods[0] == "warp" {
		if err := d.nargs(1); err != nil {
			return err
		}
		d.in.dst = -1
		s, err := d.src(d.st.args[0], "b32")
		d.in.kind, d.in.gather = inGather, gather{members: s, sort: "bar.warp.sync", barrier: true}
		if err != nil {
			return err
		}
		return d.emit()
	}
	op := barrierOp{aligned: aligned, wait: mods[0] != "arrive", all: true}
	args := d.st.args
	d.in.dst = -1
	var err error
	switch {
	case mods[0] == "red" && len(mods) == 3 && len(args) >= 3:
		op.red = mods[1]
		if op.red == "popc" {
			err = d.destination()
		} else {
			d.in.pd, _, err = d.predicate(args[0])
		}
		if err != nil {
			return err
		}
		if d.in.pa, d.in.pax, err = d.predicate(args[len(args)-1]); err != nil {
			return err
		}
		args = args[1 : len(args)-1]
	case (mods[0] == "sync" || mods[0] == "arrive") && len(mods) == 1:
	default:
		return d.unknown()
	}
	if len(args) < 1 || len(args) > 2 || !op.wait && len(args) != 2 {
		return d.errf("wrong number of operands")
	}
	if d.in.a, err = d.src(args[0], "u32"); err != nil {
		return err
	}
	if len(args) == 2 {
		op.all = false
		if d.in.b, err = d.src(args[1], "u32"); err != nil {
			return err
		}
	}
	d.in.kind, d.in.bar = inBarrier, op
	return d.emit()
}
