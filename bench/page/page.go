package page

import (
	_ "embed" // the template
	"errors"
	"fmt"
	"html/template"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode"

	"github.com/pipefs/pipefs/bench/chart"
	"github.com/pipefs/pipefs/bench/views"
)

// Section is a part of the page. What is empty is left out.
type Section struct {
	Title string
	// Lead is a sentence in larger type below the heading: what the section says.
	Lead    string
	Text    []string // paragraphs
	Table   *Table
	Figures []*chart.Figure
	Notes   []string // below table and figures, small
	// Terms are words that the section uses, explained at the end of it.
	Terms []Term
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
	"clean": chart.Clean,
	// chart escapes all text in its figures
	"wide":   func(f *chart.Figure) template.HTML { return template.HTML(f.Inline(chart.Wide)) },
	"narrow": func(f *chart.Figure) template.HTML { return template.HTML(f.Inline(chart.Narrow)) },
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

// Write writes the page: the advice, where and how it was measured, the views if
// there are any, and what else there is.
func Write(w io.Writer, r *views.Report, extra ...Section) error {
	d := document{Report: r, Advice: headline(r), Facts: facts(r), Sections: append(sections(r), extra...)}
	if len(r.Rows) > 0 {
		d.Terms = terms(r)
		d.Notes = notes(r)
	}
	if err := pages.Execute(w, d); err != nil {
		return fmt.Errorf("writing the page: %w", err)
	}
	return nil
}

// Plots writes all figures of the page into a directory, each as SVG and as PNG.
func Plots(dir string, r *views.Report, extra ...Section) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	var errs []error
	used := map[string]int{}
	for _, s := range append(sections(r), extra...) {
		for _, f := range s.Figures {
			name := fileName(f.Title)
			if used[name]++; used[name] > 1 {
				name = fmt.Sprintf("%s-%d", name, used[name])
			}
			for _, ext := range []string{".svg", ".png"} {
				errs = append(errs, f.Save(filepath.Join(dir, name+ext)))
			}
		}
	}
	return errors.Join(errs...)
}

// fileName makes a name of a title: rates-of-all-views.
func fileName(title string) string {
	words := strings.FieldsFunc(strings.ToLower(title), func(r rune) bool {
		return r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r)
	})
	name := strings.Join(words, "-")
	if name == "" {
		return "figure"
	}
	return name[:min(len(name), 60)]
}
