package ptxvm

import "strings"

// comparison returns the test of setp and set.
func comparison(name, typ string) func(a, b uint64) bool {
	if isFloat(typ) {
		fm, ok := formats[typ]
		if !ok {
			return nil
		}
		f := floatComparison(name)
		if f == nil {
			return nil
		}
		return func(a, b uint64) bool { return f(fm.get(a), fm.get(b)) }
	}
	less := lessThan(typ)
	switch name {
	case "eq":
		return func(a, b uint64) bool { return a == b }
	case "ne":
		return func(a, b uint64) bool { return a != b }
	case "lt", "lo":
		return less
	case "le", "ls":
		return func(a, b uint64) bool { return !less(b, a) }
	case "gt", "hi":
		return func(a, b uint64) bool { return less(b, a) }
	case "ge", "hs":
		return func(a, b uint64) bool { return !less(a, b) }
	}
	return nil
}

func floatComparison(name string) func(a, b float64) bool {
	switch name {
	case "num":
		return func(a, b float64) bool { return a == a && b == b }
	case "nan":
		return func(a, b float64) bool { return a != a || b != b }
	case "eq":
		return func(a, b float64) bool { return a == b }
	case "ne":
		return func(a, b float64) bool { return a < b || a > b }
	case "lt":
		return func(a, b float64) bool { return a < b }
	case "le":
		return func(a, b float64) bool { return a <= b }
	case "gt":
		return func(a, b float64) bool { return a > b }
	case "ge":
		return func(a, b float64) bool { return a >= b }
	}
	if f := floatComparison(strings.TrimSuffix(name, "u")); f != nil && strings.HasSuffix(name, "u") { // or unordered
		return func(a, b float64) bool { return a != a || b != b || f(a, b) }
	}
	return nil
}

// compareOperands decodes CMP{.BOOL}{.ftz}... a, b{, c} of setp and set, from the operand at on.
func (d *decoder) compareOperands(mods []string, typ string) (combine string, err error) {
	if len(mods) == 0 || typeSize(typ) == 0 {
		return "", d.unknown()
	}
	if d.in.cmp = comparison(mods[0], typ); d.in.cmp == nil {
		return "", d.unknown()
	}
	for _, m := range mods[1:] {
		switch m {
		case "and", "or", "xor":
			combine = m
		case "ftz":
		default:
			return "", d.unknown()
		}
	}
	n := 3
	if combine != "" {
		n = 4
	}
	if len(d.st.args) != n {
		return "", d.errf("%d operands instead of %d", len(d.st.args), n)
	}
	if d.in.a, err = d.src(d.st.args[1], typ); err != nil {
		return "", err
	}
	if d.in.b, err = d.src(d.st.args[2], typ); err != nil {
		return "", err
	}
	if combine != "" {
		d.in.pa, d.in.pax, err = d.predicate(d.st.args[3])
	}
	return combine, err
}

// compare returns the lanes of m for which the test holds.
func (w *warp) compare(in *instr, m uint32) uint32 {
	var r uint32
	a, b := w.lane32(in.a), w.lane32(in.b)
	if m == full {
		for l := range 32 {
			if in.cmp(a[l], b[l]) {
				r |= 1 << l
			}
		}
		return r
	}
	for l := range lanes(m) {
		if in.cmp(a[l], b[l]) {
			r |= 1 << l
		}
	}
	return r
}

func combination(name string) func(t, c uint32) uint32 {
	switch name {
	case "and":
		return func(t, c uint32) uint32 { return t & c }
	case "or":
		return func(t, c uint32) uint32 { return t | c }
	case "xor":
		return func(t, c uint32) uint32 { return t ^ c }
	}
	return func(t, _ uint32) uint32 { return t }
}

// setp.CMP{.BOOL}.TYPE p{|q}, a, b{, {!}c}
func (d *decoder) setp() error {
	n := len(d.op) - 1
	combine, err := d.compareOperands(d.op[1:n], d.op[n])
	if err != nil {
		return err
	}
	p := d.st.args[0]
	if p.kind == opPair {
		if d.in.pq, _, err = d.predicate(p.list[1]); err != nil {
			return err
		}
		p = p.list[0]
	}
	if d.in.pd, _, err = d.predicate(p); err != nil {
		return err
	}
	if combine == "" && d.in.pq < 0 {
		d.in.run = func(w *warp, in *instr, m uint32) { w.setPred(in.pd, m, w.compare(in, m)) }
		return d.emit()
	}
	f := combination(combine)
	d.in.run = func(w *warp, in *instr, m uint32) {
		t, c := w.compare(in, m), w.pred(in.pa)^in.pax
		w.setPred(in.pd, m, f(t, c))
		w.setPred(in.pq, m, f(^t, c))
	}
	return d.emit()
}

// set.CMP{.BOOL}.DTYPE.TYPE d, a, b{, {!}c}
func (d *decoder) set() error {
	n := len(d.op) - 1
	if n < 3 {
		return d.unknown()
	}
	combine, err := d.compareOperands(d.op[1:n-1], d.op[n])
	if err != nil {
		return err
	}
	if err := d.destination(); err != nil {
		return err
	}
	yes := uint64(1<<32 - 1)
	switch to := d.op[n-1]; {
	case to == "f32":
		yes = 0x3f800000
	case typeSize(to) != 4:
		return d.unknown()
	}
	f := combination(combine)
	d.in.run = func(w *warp, in *instr, m uint32) {
		t := f(w.compare(in, m), w.pred(in.pa)^in.pax)
		for l := range lanes(m) {
			w.regs[in.dst+l] = yes * uint64(t>>l&1)
		}
	}
	return d.emit()
}

// selp.TYPE d, a, b, {!}p
func (d *decoder) selp() error {
	typ := d.op[len(d.op)-1]
	if len(d.st.args) != 4 || typeSize(typ) == 0 {
		return d.unknown()
	}
	if err := d.destination(); err != nil {
		return err
	}
	var err error
	if d.in.a, err = d.src(d.st.args[1], typ); err != nil {
		return err
	}
	if d.in.b, err = d.src(d.st.args[2], typ); err != nil {
		return err
	}
	if d.in.pa, d.in.pax, err = d.predicate(d.st.args[3]); err != nil {
		return err
	}
	d.in.run = func(w *warp, in *instr, m uint32) {
		dst, a, b := w.lane32(in.dst), w.lane32(in.a), w.lane32(in.b)
		t := w.pred(in.pa) ^ in.pax
		for l := range lanes(m) {
			if t>>l&1 != 0 {
				dst[l] = a[l]
			} else {
				dst[l] = b[l]
			}
		}
	}
	return d.emit()
}

// slct.TYPE.CTYPE d, a, b, c: a where c is not negative
func (d *decoder) slct() error {
	n := len(d.op) - 1
	typ, ctyp := d.op[n-1], d.op[n]
	if ctyp != "s32" && ctyp != "f32" || typeSize(typ) == 0 {
		return d.unknown()
	}
	return d.alu(alu{types: []string{typ, typ, ctyp}, f3: func(a, b, c uint64) uint64 {
		if c>>31 == 0 || ctyp == "f32" && c&0x7fffffff == 0 {
			return a
		}
		return b
	}})
}

func (d *decoder) lop3() error {
	if len(d.op) != 2 || len(d.st.args) != 5 || d.st.args[4].kind != opImm {
		return d.unknown()
	}
	table := d.st.args[4].val
	d.st = &stmt{kind: stInstr, line: d.st.line, text: d.st.text, op: d.st.op, args: d.st.args[:4]}
	return d.alu(three("b32", logic3(table)))
}

func (d *decoder) prmt() error {
	f := permute("")
	if len(d.op) == 3 {
		f = permute(d.op[2])
	}
	return d.alu(f)
}

// bfi.TYPE d, a, b, at, n: a into b
func (d *decoder) bfi() error {
	typ := d.op[len(d.op)-1]
	if len(d.st.args) != 5 || typ != "b32" && typ != "b64" {
		return d.unknown()
	}
	if err := d.destination(); err != nil {
		return err
	}
	for i, t := range []string{typ, typ, "u32", "u32"} {
		s, err := d.src(d.st.args[i+1], t)
		if err != nil {
			return err
		}
		d.in.vec = append(d.in.vec, s)
	}
	size := typeSize(typ)
	d.in.run = func(w *warp, in *instr, m uint32) {
		v := in.vec
		for l := range lanes(m) {
			w.regs[in.dst+l] = insert(w.regs[v[0]+l], w.regs[v[1]+l], w.regs[v[2]+l]&255, w.regs[v[3]+l]&255, size)
		}
	}
	return d.emit()
}

// dp is dp4a.AT.BT and dp2a.lo|hi.AT.BT.
func (d *decoder) dp() error {
	n := len(d.op) - 1
	if n < 2 {
		return d.unknown()
	}
	at, bt := d.op[n-1], d.op[n]
	size, shift := 1, uint(0)
	if d.op[0] == "dp2a" {
		if size = 2; d.op[1] == "hi" {
			shift = 16
		}
	}
	return d.alu(alu{f3: dot(isSigned(at), isSigned(bt), size, shift), types: []string{at, bt, "b32"}})
}
