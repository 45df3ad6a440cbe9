package ptxvm

// bra{.uni} label
func (d *decoder) bra() error {
	if len(d.st.args) != 1 || d.st.args[0].kind != opName {
		return d.unknown()
	}
	return d.jump(d.label(d.st.args[0].name), d.st.args[0].name)
}

func (d *decoder) jump(l *label, name string) error {
	if l == nil {
		return d.errf("label %s is not there", name)
	}
	d.in.kind = inBranch
	at, st := len(d.k.code), d.st
	d.fixups = append(d.fixups, func() error {
		d.st = st
		if l.pc < 0 {
			return d.errf("label %s is not there", name)
		}
		d.k.code[at].target = l.pc
		return nil
	})
	return d.emit()
}

// brx.idx{.uni} index, targets
func (d *decoder) brx() error {
	if len(d.st.args) != 2 {
		return d.unknown()
	}
	var err error
	if d.in.a, err = d.src(d.st.args[0], "u32"); err != nil {
		return err
	}
	var list []*label
	for i := len(d.scopes) - 1; i >= 0 && list == nil; i-- {
		list = d.scopes[i].targets[d.st.args[1].name]
	}
	if list == nil {
		return d.errf("targets %s are not there", d.st.args[1].name)
	}
	d.in.kind = inSwitch
	at := len(d.k.code)
	d.fixups = append(d.fixups, func() error {
		for _, l := range list {
			d.k.code[at].targets = append(d.k.code[at].targets, l.pc)
		}
		return nil
	})
	return d.emit()
}

// ret ends an entry, or leaves what was called in place.
func (d *decoder) ret() error {
	if fn := d.top().fn; !fn.entry {
		return d.jump(d.top().end, "end of "+fn.name)
	}
	return d.exit()
}

func (d *decoder) exit() error {
	d.in.kind = inExit
	return d.emit()
}

func (d *decoder) trap() error {
	d.in.run = func(w *warp, in *instr, m uint32) { w.fail(Trap, first(m), 0, "") }
	return d.emit()
}

// call{.uni} {(result),} name{, (arguments)}: the body is decoded here. Its parameters are the caller's variables.
func (d *decoder) call() error {
	args := d.st.args
	var results, params []operand
	if len(args) > 0 && args[0].kind == opParen {
		results, args = args[0].list, args[1:]
	}
	if len(args) == 0 || args[0].kind != opName {
		return d.unknown()
	}
	name := args[0].name
	if len(args) > 1 && args[1].kind == opParen {
		params = args[1].list
	}
	f := d.m.funcs[name]
	switch {
	case f == nil || !f.defined:
		return d.errf("function %s is not defined", name)
	case f.beingCalled:
		return d.errf("function %s calls itself", name)
	case len(params) != len(f.params) || len(results) != len(f.returns):
		return d.errf("other arguments than %s has", name)
	case d.in.pred >= 0:
		return d.errf("a call with a predicate")
	}
	sc := newScope(f)
	bind := func(formal *variable, actual operand) error {
		v := d.symbol(actual.name)
		if v == nil || v.space != spParam {
			return d.errf("argument %s is not a parameter variable", actual.name)
		}
		c := *formal
		c.offset = v.offset
		sc.vars[formal.name] = &c
		return nil
	}
	for i, p := range f.params {
		if err := bind(p, params[i]); err != nil {
			return err
		}
	}
	for i, r := range f.returns {
		if err := bind(r, results[i]); err != nil {
			return err
		}
	}
	d.in.run = func(*warp, *instr, uint32) {}
	if err := d.emit(); err != nil {
		return err
	}
	f.beingCalled = true
	defer func() { f.beingCalled = false }()
	return d.function(f, sc)
}
