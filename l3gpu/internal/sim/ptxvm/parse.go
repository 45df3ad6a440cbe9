package ptxvm

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

type parser struct {
	src    string
	toks   []token
	i      int
	m      *Module
	source string // of the last .loc
}

// Parse reads PTX. An instruction that cannot be executed is an error here, not when it is met.
func Parse(ptx string) (*Module, error) {
	toks, err := lex(ptx)
	if err != nil {
		return nil, err
	}
	m := &Module{kernels: map[string]*kernel{}, funcs: map[string]*function{}, globals: map[string]*variable{}, files: map[uint64]string{}}
	p := &parser{src: ptx, toks: toks, m: m}
	p.scanFiles()
	for p.peek().kind != tokEnd {
		if err := p.top(); err != nil {
			return nil, err
		}
	}
	for _, f := range m.funcs {
		if !f.entry {
			continue
		}
		k, err := decode(m, f)
		if err != nil {
			return nil, err
		}
		m.kernels[f.name] = k
	}
	return m, nil
}

// scanFiles finds the .file directives, which come last, so that .loc can be resolved at once.
func (p *parser) scanFiles() {
	for i := 0; i+2 < len(p.toks); i++ {
		if p.toks[i].text == ".file" && p.toks[i+2].kind == tokString {
			if n, err := strconv.ParseUint(p.toks[i+1].text, 10, 32); err == nil {
				name := p.toks[i+2].text
				p.m.files[n] = name[strings.LastIndexByte(name, '/')+1:]
			}
		}
	}
}

func (p *parser) peek() token { return p.toks[p.i] }

func (p *parser) next() token {
	t := p.toks[p.i]
	if t.kind != tokEnd {
		p.i++
	}
	return t
}

func (p *parser) is(text string) bool {
	t := p.peek()
	return t.text == text && t.kind != tokString && t.kind != tokEnd
}

func (p *parser) accept(text string) bool {
	if p.is(text) {
		p.i++
		return true
	}
	return false
}

func (p *parser) errf(format string, args ...any) error {
	return fmt.Errorf("ptx line %d: %s", p.peek().line, fmt.Sprintf(format, args...))
}

func (p *parser) expect(text string) error {
	if !p.accept(text) {
		return p.errf("%q where %q belongs", p.peek().text, text)
	}
	return nil
}

func (p *parser) word() (string, error) {
	if t := p.peek(); t.kind == tokWord {
		p.i++
		return t.text, nil
	}
	return "", p.errf("%q where a name belongs", p.peek().text)
}

func (p *parser) integer() (int, error) {
	v, err := p.constant()
	if err != nil {
		return 0, err
	}
	if v > 1<<40 {
		return 0, p.errf("number %d is too large", v)
	}
	return int(v), nil
}

// constant reads a number; a negative one is its two's complement, a float its bits.
func (p *parser) constant() (uint64, error) {
	neg := p.accept("-")
	t := p.peek()
	if t.kind != tokNumber {
		return 0, p.errf("%q where a number belongs", t.text)
	}
	p.i++
	v, err := parseNumber(t.text)
	if err != nil {
		return 0, fmt.Errorf("ptx line %d: %w", t.line, err)
	}
	if neg {
		v = -v
	}
	return v, nil
}

func parseNumber(s string) (uint64, error) {
	if len(s) > 2 && s[0] == '0' {
		switch s[1] {
		case 'f', 'F', 'd', 'D':
			return strconv.ParseUint(s[2:], 16, 64)
		}
	}
	if strings.ContainsRune(s, '.') {
		f, err := strconv.ParseFloat(s, 64)
		return math.Float64bits(f), err
	}
	return strconv.ParseUint(strings.TrimSuffix(s, "U"), 0, 64)
}

// top reads one thing at the module's level.
func (p *parser) top() error {
	t := p.next()
	switch t.text {
	case ".version":
		p.m.Version = p.next().text
	case ".target":
		p.m.Target = p.next().text
		for p.accept(",") {
			p.next()
		}
	case ".address_size":
		if n, err := p.integer(); err != nil || n != 64 {
			return p.errf("only addresses of 64 bits are known")
		}
	case ".file":
		p.i += 2
		for p.accept(",") {
			p.next()
		}
	case ".loc":
		return p.loc()
	case ".section":
		return p.skipBraces()
	case ".pragma":
		p.next()
		return p.expect(";")
	case ".visible", ".extern", ".weak", ".common":
		if nt := p.peek().text; nt == ".entry" || nt == ".func" {
			return nil
		}
		return p.moduleVar(t.text == ".extern")
	case ".entry", ".func":
		return p.function(t.text == ".entry", t.line)
	case ".global", ".const", ".shared":
		p.i--
		return p.moduleVar(false)
	default:
		return fmt.Errorf("ptx line %d: unknown directive %q", t.line, t.text)
	}
	return nil
}

func (p *parser) loc() error {
	var n [3]uint64
	for i := range n {
		v, err := p.constant()
		if err != nil {
			return err
		}
		n[i] = v
	}
	if p.is(",") { // function_name NAME, inlined_at FILE LINE COLUMN
		line := p.peek().line
		for p.peek().line == line && p.peek().kind != tokEnd {
			p.i++
		}
	}
	p.source = ""
	if name := p.m.files[n[0]]; name != "" {
		p.source = fmt.Sprintf("%s:%d", name, n[1])
	}
	return nil
}

func (p *parser) skipBraces() error {
	for !p.is("{") {
		if p.next().kind == tokEnd {
			return p.errf("section without body")
		}
	}
	depth := 0
	for {
		switch t := p.next(); {
		case t.kind == tokEnd:
			return p.errf("section without end")
		case t.text == "{":
			depth++
		case t.text == "}":
			if depth--; depth == 0 {
				return nil
			}
		}
	}
}

func (p *parser) moduleVar(extern bool) error {
	w, err := p.word()
	if err != nil {
		return err
	}
	sp, ok := spaceOf[strings.TrimPrefix(w, ".")]
	if !ok {
		return p.errf("unknown kind of variable %q", w)
	}
	vars, err := p.variables(sp)
	if err != nil {
		return err
	}
	for _, v := range vars {
		v.extern = extern
		if extern && sp != spShared {
			return p.errf("external variable %s", v.name)
		}
		p.m.globals[v.name] = v
		p.m.vars = append(p.m.vars, v)
	}
	return nil
}
