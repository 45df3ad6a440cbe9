package ptxvm

import (
	"fmt"
	"strconv"
	"strings"
)

type tokenKind uint8

const (
	tokEnd tokenKind = iota
	tokWord
	tokNumber
	tokString
	tokPunct
)

type token struct {
	kind tokenKind
	text string
	line int
	pos  int // where it begins in the text
}

func isWordStart(c byte) bool {
	return c == '_' || c == '$' || c == '%' || c == '.' || c|0x20 >= 'a' && c|0x20 <= 'z'
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// lex cuts the text into tokens. An opcode with its modifiers, "ld.global.L1::no_allocate.u32", is one word.
func lex(s string) ([]token, error) {
	var toks []token
	line := 1
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case c == '\n':
			line++
			i++
		case c == ' ' || c == '\t' || c == '\r' || c == 0:
			i++
		case c == '/' && i+1 < len(s) && s[i+1] == '/':
			for i < len(s) && s[i] != '\n' {
				i++
			}
		case c == '/' && i+1 < len(s) && s[i+1] == '*':
			for i += 2; i < len(s) && (s[i-1] != '*' || s[i] != '/'); i++ {
				if s[i] == '\n' {
					line++
				}
			}
			i++
		case c == '"':
			j := i + 1
			for j < len(s) && s[j] != '"' && s[j] != '\n' {
				j++
			}
			if j >= len(s) || s[j] != '"' {
				return nil, fmt.Errorf("ptx line %d: string without end", line)
			}
			toks = append(toks, token{tokString, s[i+1 : j], line, i})
			i = j + 1
		case isWordStart(c):
			j := wordEnd(s, i)
			toks = append(toks, token{tokWord, s[i:j], line, i})
			i = j
		case isDigit(c):
			j := i + 1
			for j < len(s) && (isDigit(s[j]) || isWordStart(s[j]) && s[j] != '%' && s[j] != '$') {
				j++
			}
			toks = append(toks, token{tokNumber, s[i:j], line, i})
			i = j
		default:
			toks = append(toks, token{tokPunct, s[i : i+1], line, i})
			i++
		}
	}
	return append(toks, token{kind: tokEnd, text: "end of text", line: line, pos: len(s)}), nil
}

// wordEnd returns the end of the word that begins at i; "::" belongs to it, ":" does not.
func wordEnd(s string, i int) int {
	for i < len(s) {
		switch {
		case isWordStart(s[i]) || isDigit(s[i]):
			i++
		case s[i] == ':' && i+2 < len(s) && s[i+1] == ':' && isWordStart(s[i+2]):
			i += 2
		default:
			return i
		}
	}
	return i
}

type parser struct {
	src     string
	toks    []token
	i       int
	m       *Module
	entries []*function
}

// Parse reads PTX. An instruction that cannot be executed is an error here, not when it is met.
func Parse(ptx string) (*Module, error) {
	toks, err := lex(ptx)
	if err != nil {
		return nil, err
	}
	m := &Module{kernels: map[string]*kernel{}, globals: map[string]*variable{}}
	p := &parser{src: ptx, toks: toks, m: m}
	for p.peek().kind != tokEnd {
		if err := p.top(); err != nil {
			return nil, err
		}
	}
	for _, f := range p.entries {
		k, err := decode(m, f)
		if err != nil {
			return nil, err
		}
		m.kernels[f.name] = k
	}
	return m, nil
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
	if len(s) > 2 && (s[:2] == "0f" || s[:2] == "0F") {
		return strconv.ParseUint(s[2:], 16, 32)
	}
	return strconv.ParseUint(strings.TrimSuffix(s, "U"), 0, 64)
}

// top reads one thing at the module's level.
func (p *parser) top() error {
	t := p.next()
	switch t.text {
	case ".version", ".target":
		p.next()
	case ".address_size":
		if n, err := p.integer(); err != nil || n != 64 {
			return p.errf("only addresses of 64 bits are known")
		}
	case ".visible":
	case ".entry":
		return p.entry()
	case ".global":
		v, err := p.variable(spGlobal)
		if err != nil {
			return err
		}
		p.m.globals[v.name] = v
		return p.expect(";")
	default:
		return fmt.Errorf("ptx line %d: unknown directive %q", t.line, t.text)
	}
	return nil
}
