package report

import (
	_ "embed" // the template
	"fmt"
	"html/template"
	"io"
	"time"
)

//go:embed page.html
var source string

var pages = template.Must(template.New("page").Funcs(template.FuncMap{
	"clean":   clean,
	"capital": func(s string) string { return capital(clean(s)) },
	"first":   func(r Row) Cell { return r.at(0) },
	"rest":    func(r Row) []Cell { return r.Cells[min(1, len(r.Cells)):] },
	"filled":  Row.filled,
	"others":  func(h []Head) int { return max(1, len(h)-1) },
	"words":   func(h []Head, i int) bool { return i+1 < len(h) && h[i+1].Words },
}).Parse(source))

// at is a cell, empty if there is none.
func (r Row) at(i int) Cell {
	if i < len(r.Cells) {
		return r.Cells[i]
	}
	return Cell{}
}

// Stamp is when it was measured, for machines.
func (d *Document) Stamp() string { return d.Time.Format(time.RFC3339) }

// HTML writes the page.
func (d *Document) HTML(w io.Writer) error {
	if err := pages.Execute(w, d); err != nil {
		return fmt.Errorf("writing the page: %w", err)
	}
	return nil
}
