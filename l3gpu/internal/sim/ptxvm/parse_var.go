package ptxvm

import (
	"encoding/binary"
	"strings"
)

// typeSize returns the bytes of a PTX type without its dot, 0 if it is none. A predicate has none.
func typeSize(t string) int {
	switch t {
	case "b8", "u8", "s8":
		return 1
	case "b16", "u16", "s16", "f16", "bf16":
		return 2
	case "b32", "u32", "s32", "f32", "f16x2", "u16x2", "s16x2", "bf16x2":
		return 4
	case "b64", "u64", "s64", "f64":
		return 8
	case "b128":
		return 16
	}
	return 0
}

// variables reads the rest of a declaration after the space, and its semicolon.
func (p *parser) variables(sp space) ([]*variable, error) {
	v, err := p.variable(sp)
	if err != nil {
		return nil, err
	}
	vars := []*variable{v}
	for p.accept(",") {
		w := &variable{space: sp, elem: v.elem, align: v.align, line: p.peek().line}
		if err := p.declarator(w, 1); err != nil {
			return nil, err
		}
		vars = append(vars, w)
	}
	return vars, p.expect(";")
}

// variable reads one declaration after its space: attributes, type, name, dimensions, initialiser.
func (p *parser) variable(sp space) (*variable, error) {
	v := &variable{space: sp, line: p.peek().line}
	vec := 1
	for v.elem == 0 {
		w, err := p.word()
		if err != nil {
			return nil, err
		}
		switch w {
		case ".align":
			if v.align, err = p.integer(); err != nil {
				return nil, err
			}
		case ".v2":
			vec = 2
		case ".v4":
			vec = 4
		case ".attribute":
			for !p.accept(")") && p.peek().kind != tokEnd {
				p.i++
			}
		case ".ptr", ".global", ".const", ".shared", ".local": // what a pointer parameter points to
		default:
			if v.elem = typeSize(strings.TrimPrefix(w, ".")); v.elem == 0 {
				return nil, p.errf("unknown type %q", w)
			}
		}
	}
	if v.align == 0 {
		v.align = v.elem * vec
	}
	return v, p.declarator(v, vec)
}

func (p *parser) declarator(v *variable, vec int) error {
	// .param .u64 .ptr .align 1 name
	for p.is(".ptr") || p.is(".align") || p.is(".global") || p.is(".const") || p.is(".shared") || p.is(".local") {
		if p.next().text == ".align" {
			p.i++
		}
	}
	name, err := p.word()
	if err != nil {
		return err
	}
	v.name = name
	v.size = v.elem * vec
	var dims []int
	for p.accept("[") {
		n := 0
		if !p.is("]") {
			if n, err = p.integer(); err != nil {
				return err
			}
		}
		dims = append(dims, n)
		v.size *= n
		if err := p.expect("]"); err != nil {
			return err
		}
	}
	if v.size > 1<<30 || v.size < 0 {
		return p.errf("%s has %d bytes", name, v.size)
	}
	if p.accept("=") {
		v.init = make([]byte, v.size)
		return p.initialiser(v, 0, dims)
	}
	return nil
}

// initialiser reads the value of the part of v that begins at a byte and has the given dimensions.
func (p *parser) initialiser(v *variable, at int, dims []int) error {
	if len(dims) == 0 {
		return p.element(v, at)
	}
	step := v.elem
	for _, d := range dims[1:] {
		step *= d
	}
	if err := p.expect("{"); err != nil {
		return err
	}
	for i := 0; !p.accept("}"); i++ {
		if i > 0 {
			if err := p.expect(","); err != nil {
				return err
			}
		}
		if i >= dims[0] {
			return p.errf("too many values for %s", v.name)
		}
		if err := p.initialiser(v, at+i*step, dims[1:]); err != nil {
			return err
		}
	}
	return nil
}

// element reads a number, or a symbol's address: NAME, NAME+N, generic(NAME)+N.
func (p *parser) element(v *variable, at int) error {
	if p.peek().kind != tokWord {
		val, err := p.constant()
		if err != nil {
			return err
		}
		var b [8]byte
		binary.LittleEndian.PutUint64(b[:], val)
		copy(v.init[at:at+min(v.elem, 8)], b[:])
		return nil
	}
	name, _ := p.word()
	if name == "generic" && p.accept("(") {
		var err error
		if name, err = p.word(); err != nil {
			return err
		}
		if err := p.expect(")"); err != nil {
			return err
		}
	}
	r := reference{at: at, symbol: name}
	if p.is("+") || p.is("-") {
		p.accept("+")
		val, err := p.constant()
		if err != nil {
			return err
		}
		r.add = int64(val)
	}
	if v.elem != 8 {
		return p.errf("an address in elements of %d bytes", v.elem)
	}
	v.refs = append(v.refs, r)
	return nil
}
