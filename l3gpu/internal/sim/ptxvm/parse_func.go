package ptxvm

import "strings"

// entry reads an entry after that word.
func (p *parser) entry() error {
	f := &function{}
	var err error
	if f.name, err = p.word(); err != nil {
		return err
	}
	if p.is("(") {
		if f.params, err = p.params(); err != nil {
			return err
		}
	}
	for !p.is("{") {
		if err := p.tuning(f); err != nil {
			return err
		}
	}
	p.entries = append(p.entries, f)
	return p.body(f)
}

func (p *parser) params() ([]*variable, error) {
	if err := p.expect("("); err != nil {
		return nil, err
	}
	var list []*variable
	for !p.accept(")") {
		if len(list) > 0 {
			if err := p.expect(","); err != nil {
				return nil, err
			}
		}
		w, err := p.word()
		if err != nil {
			return nil, err
		}
		if w != ".param" {
			return nil, p.errf("a parameter in %q", w)
		}
		v, err := p.variable(spParam)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	return list, nil
}

// tuning reads one directive between the parameters and the body.
func (p *parser) tuning(f *function) error {
	t := p.next()
	switch t.text {
	case ".maxntid":
		n := 1
		for more := true; more; more = p.accept(",") {
			v, err := p.integer()
			if err != nil {
				return err
			}
			n *= v
		}
		f.maxThreads = n
	case ".minnctapersm":
		_, err := p.integer()
		return err
	default:
		return p.errf("unknown directive %q", t.text)
	}
	return nil
}

func (p *parser) body(f *function) error {
	if err := p.expect("{"); err != nil {
		return err
	}
	for depth := 1; ; {
		t := p.next()
		s := stmt{line: t.line}
		switch {
		case t.kind == tokEnd:
			return p.errf("%s has no end", f.name)
		case t.text == "{":
			depth++
			s.kind = stOpen
		case t.text == "}":
			if depth--; depth == 0 {
				return nil
			}
			s.kind = stClose
		case t.text == ";":
			continue
		case t.text == ".pragma":
			p.next()
			if err := p.expect(";"); err != nil {
				return err
			}
			continue
		case t.text == ".reg":
			if err := p.regs(&s); err != nil {
				return err
			}
		case t.kind == tokWord && spaceOf[strings.TrimPrefix(t.text, ".")] != spNone && t.text[0] == '.':
			v, err := p.variable(spaceOf[t.text[1:]])
			if err == nil {
				err = p.expect(";")
			}
			if err != nil {
				return err
			}
			s.kind, s.v = stVar, v
		case t.kind == tokWord && p.is(":"):
			p.i++
			s.kind, s.label = stLabel, t.text
		default:
			p.i--
			if err := p.instruction(&s); err != nil {
				return err
			}
		}
		f.body = append(f.body, s)
	}
}

func (p *parser) regs(s *stmt) error {
	s.kind = stReg
	typ, err := p.word()
	if err != nil {
		return err
	}
	typ = strings.TrimPrefix(typ, ".")
	if typeSize(typ) == 0 && typ != "pred" {
		return p.errf("unknown type %q", typ)
	}
	for more := true; more; more = p.accept(",") {
		d := regDecl{typ: typ, count: -1}
		if d.name, err = p.word(); err != nil {
			return err
		}
		if p.accept("<") {
			if d.count, err = p.integer(); err != nil {
				return err
			}
			if d.count > 1<<20 {
				return p.errf("%d registers", d.count)
			}
			if err := p.expect(">"); err != nil {
				return err
			}
		}
		s.regs = append(s.regs, d)
	}
	return p.expect(";")
}

func (p *parser) instruction(s *stmt) error {
	start := p.peek().pos
	if p.accept("@") {
		s.guard = operand{kind: opName, not: p.accept("!")}
		var err error
		if s.guard.name, err = p.word(); err != nil {
			return err
		}
	}
	var err error
	if s.op, err = p.word(); err != nil {
		return err
	}
	if s.args, err = p.operands(";"); err != nil {
		return err
	}
	s.text = strings.Join(strings.Fields(p.src[start:p.toks[p.i-1].pos]), " ")
	return nil
}

func (p *parser) operands(end string) ([]operand, error) {
	var list []operand
	for !p.accept(end) {
		if len(list) > 0 {
			if err := p.expect(","); err != nil {
				return nil, err
			}
		}
		o, err := p.operand()
		if err != nil {
			return nil, err
		}
		list = append(list, o)
	}
	return list, nil
}

func (p *parser) operand() (operand, error) {
	switch {
	case p.accept("{"):
		list, err := p.operands("}")
		return operand{kind: opVec, list: list}, err
	case p.accept("["):
		o, err := p.operand()
		if err != nil {
			return o, err
		}
		a := operand{kind: opAddr, name: o.name, off: o.off}
		if o.kind == opImm {
			a.off = int64(o.val)
		}
		return a, p.expect("]")
	}
	var o operand
	o.not = p.accept("!")
	if p.peek().kind != tokWord {
		v, err := p.constant()
		o.kind, o.val = opImm, v
		return o, err
	}
	o.kind = opName
	o.name, _ = p.word()
	switch {
	case p.accept("|"):
		q, err := p.operand()
		return operand{kind: opPair, list: []operand{o, q}}, err
	case p.is("+") || p.is("-"):
		p.accept("+")
		v, err := p.constant()
		o.off = int64(v)
		return o, err
	}
	return o, nil
}
