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
