package page

import (
	_ "embed" // the template
	"fmt"
	"html/template"
	"io"
	"time"

	"github.com/pipefs/pipefs/bench/views"
)

// Section is a part of the page. What is empty is left out.
type Section struct {
	Title   string
	Table   *Table
	Figures []*figure
	Notes   []string // below table and figures, small
}

// Term is a word and what it means.
type Term struct{ Word, Meaning string }

// Table has a heading for each column; the first column names the rows and stays in
// sight.
type Table struct {
	Head []Head
	Rows []Row
}

// Head is the heading of a column. Columns of Words are set flush left, and may
// break; others hold numbers.
type Head struct {
	Name, Unit string
	Words      bool
}

// Row of a table. Strong rows are what the page advises to use.
type Row struct {
	Cells  []Cell
	Strong bool
	// Error is why there are no figures; it takes the place of empty cells.
	Error string
}

// Cell has a text and, below it, a smaller one, as the interval of a number.
type Cell struct {
	Text, Small string
	Strong      bool
}

//go:embed page.html
var source string

var pages = template.Must(template.New("page").Funcs(template.FuncMap{
	"clean":  clean,
	"first":  func(r Row) Cell { return r.at(0) },
	"rest":   func(r Row) []Cell { return r.Cells[min(1, len(r.Cells)):] },
	"filled": Row.filled,
	"others": func(h []Head) int { return max(1, len(h)-1) },
	"words":  func(h []Head, i int) bool { return i+1 < len(h) && h[i+1].Words },
}).Parse(source))

// at is a cell, empty if there is none.
func (r Row) at(i int) Cell {
	if i < len(r.Cells) {
		return r.Cells[i]
	}
	return Cell{}
}

// filled says whether a row has figures.
func (r Row) filled() bool {
	for _, c := range r.Cells[min(1, len(r.Cells)):] {
		if c.Text != "" && c.Text != none {
			return true
		}
	}
	return false
}

// document is what the template is given.
type document struct {
	*views.Report
	Advice   []advice
	Facts    []Term
	Sections []Section
	Terms    []Term
	Notes    []string
}

// Stamp is when it was measured, for machines.
func (d document) Stamp() string { return d.Time.Format(time.RFC3339) }

// Write writes the page: the advice, where and how it was measured, and the views.
func Write(w io.Writer, r *views.Report) error {
	d := document{Report: r, Advice: headline(r), Facts: facts(r), Sections: sections(r)}
	if len(r.Rows) > 0 {
		d.Terms = terms(r)
		d.Notes = notes(r)
	}
	if err := pages.Execute(w, d); err != nil {
		return fmt.Errorf("writing the page: %w", err)
	}
	return nil
}
