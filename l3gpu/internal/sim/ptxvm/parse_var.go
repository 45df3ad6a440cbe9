package ptxvm

import "strings"

// typeSize returns the bytes of a PTX type without its dot, 0 if it is none. A predicate has none.
func typeSize(t string) int {
	switch t {
	case "b8", "u8", "s8":
		return 1
	case "b16", "u16", "s16", "f16":
		return 2
	case "b32", "u32", "s32", "f32", "u16x2", "s16x2":
		return 4
	case "b64", "u64", "s64":
		return 8
	}
	return 0
}

// variable reads a declaration after its space: alignment, type, name, length, initialiser.
func (p *parser) variable(sp space) (*variable, error) {
	v := &variable{space: sp, line: p.peek().line}
	for v.elem == 0 {
		w, err := p.word()
		switch {
		case err != nil:
			return nil, err
		case w == ".align":
			if v.align, err = p.integer(); err != nil {
				return nil, err
			}
		default:
			if v.elem = typeSize(strings.TrimPrefix(w, ".")); v.elem == 0 {
				return nil, p.errf("unknown type %q", w)
			}
		}
	}
	v.align = max(v.align, v.elem)
	var err error
	if v.name, err = p.word(); err != nil {
		return nil, err
	}
	n := 1
	if p.accept("[") {
		if n, err = p.integer(); err != nil {
			return nil, err
		}
		if err := p.expect("]"); err != nil {
			return nil, err
		}
	}
	if v.size = v.elem * n; v.size > 1<<30 {
		return nil, p.errf("%s has %d bytes", v.name, v.size)
	}
	if p.accept("=") {
		return v, p.initialiser(v)
	}
	return v, nil
}

// initialiser reads the number, or the numbers, that a variable begins with.
func (p *parser) initialiser(v *variable) error {
	o, err := p.operand()
	if err != nil {
		return err
	}
	list := o.list
	if o.kind != opVec {
		list = []operand{o}
	}
	if len(list)*v.elem > v.size {
		return p.errf("too many values for %s", v.name)
	}
	v.init = make([]byte, v.size)
	for i, o := range list {
		if o.kind != opImm {
			return p.errf("a value of %s that is no number", v.name)
		}
		put(v.init[i*v.elem:(i+1)*v.elem], o.val)
	}
	return nil
}
