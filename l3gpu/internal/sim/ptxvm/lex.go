package ptxvm

import "fmt"

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
