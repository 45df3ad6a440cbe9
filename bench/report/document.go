// Package report shows what bench and tune have measured: as text for a terminal, and as
// one HTML file that needs no network, fonts or scripts.
//
// # Nouns
//
// A [Document] is what is shown: the advice, facts about the run, and sections with a
// [Table], bars and notes. [OfViews] and [OfTuning] make one; [Document.Text] and
// [Document.HTML] write it.
//
// All text is taken for what it says, never for markup: names of files may hold
// anything.
package report

import (
	_ "embed" // the template
	"fmt"
	"html/template"
	"io"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	align "github.com/jedib0t/go-pretty/v6/text"

	"github.com/pipefs/pipefs/bench/views"
	"github.com/pipefs/pipefs/internal/human"
)

// Document is what is shown. What is empty is left out.
type Document struct {
	Source string
	Time   time.Time
	Advice []Advice
	// Stopped: the run was interrupted, and has figures.
	Stopped  bool
	Facts    []views.Term
	Failures []string // of rows, for the text
	Sections []Section
	Terms    []views.Term // of the page; those that are Explained are in the text, too
	Notes    []string
}

// Advice is what it is about, what it says, and commands.
type Advice struct {
	About, Says string
	Commands    []string
}

// Section is a heading, a table, bars, and notes below them.
type Section struct {
	Title string
	Table *Table
	Bars  []*Bars // of the page
	Notes []string
}

// Table has a heading for each column; the first column names the rows.
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

// Row of a table. Strong rows are what is advised.
type Row struct {
	Cells  []Cell
	Strong bool
	// Error is why there are no figures; it takes the place of empty cells.
	Error string
}

// Cell has a text and a smaller one beside or below it, as the interval of a number. In
// a strong row a strong cell is the figure that decides.
type Cell struct {
	Text, Small string
	Strong      bool
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

// column of a table of T; it is left out if no row has anything in it.
type column[T any] struct {
	head Head
	cell func(*T) Cell
}

// tableOf makes a table of rows. The first column stays in any case, and the second if a
// row failed; a table of one column is nil.
func tableOf[T any](rows []T, about func(i int, row *T) Row, columns ...column[T]) *Table {
	t := &Table{Rows: make([]Row, len(rows))}
	failed := false
	for i := range rows {
		t.Rows[i] = about(i, &rows[i])
		failed = failed || t.Rows[i].Error != ""
	}
	for n, c := range columns {
		cells, keep := make([]Cell, len(rows)), n == 0 || n == 1 && failed
		for i := range rows {
			cells[i] = c.cell(&rows[i])
			keep = keep || cells[i].Text != none && cells[i].Text != "" && cells[i].Text != "0 B"
		}
		if !keep {
			continue
		}
		t.Head = append(t.Head, c.head)
		for i := range rows {
			t.Rows[i].Cells = append(t.Rows[i].Cells, cells[i])
		}
	}
	if len(t.Head) < 2 || len(t.Rows) == 0 {
		return nil
	}
	return t
}

// words is a cell of text.
func words(s string) Cell {
	if s == "" {
		s = none
	}
	return Cell{Text: s}
}

// amount is a cell of what is 0 where it was not measured.
func amount[T int64 | float64](v T, format func(T) string) Cell {
	if v == 0 {
		return Cell{Text: none}
	}
	return Cell{Text: format(v)}
}

// measured is the cell of a figure with its interval, which is left out where it was
// measured but once.
func measured(values []float64) Cell {
	if len(values) == 0 {
		return Cell{Text: none}
	}
	return within(views.Bootstrap(values), len(values))
}

// within is the cell of an interval, that of n measurements.
func within(i views.Interval, n int) Cell {
	c := Cell{Text: Number(i.Median)}
	if n > 1 && c.Text != none {
		c.Small = Number(i.Low) + "–" + Number(i.High)
	}
	return c
}

// capital begins a text with a capital letter.
func capital(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:] // a byte of a longer rune stays as it is
}

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

// textWidth is how wide tables are at most, in columns: words of cells are broken.
const textWidth = 100

// Text writes the document for a terminal: the advice first.
func (d *Document) Text(w io.Writer) {
	for _, a := range d.Advice {
		if a.About != "" {
			a.Says = a.About + ": " + a.Says
		}
		fmt.Fprintln(w, a.Says)
		for _, c := range a.Commands {
			fmt.Fprintln(w, "  "+c)
		}
	}
	fmt.Fprintln(w)
	for _, f := range d.Facts {
		paragraphs(w, []string{f.Word + ": " + f.Meaning})
	}
	for _, line := range d.Failures { // as they are, to be searched for
		fmt.Fprintln(w, line)
	}
	for _, s := range d.Sections {
		if s.Table != nil {
			fmt.Fprintln(w, "\n"+human.WrapAt(s.Title, 0, textWidth))
			s.Table.text(w)
		}
		paragraphs(w, s.Notes)
	}
	var terms []string
	for _, t := range d.Terms {
		if t.Explained {
			terms = append(terms, t.Word+": "+t.Meaning)
		}
	}
	if len(terms) > 0 {
		paragraphs(w, []string{"", strings.Join(terms, " ")})
	}
	paragraphs(w, d.Notes)
}

func paragraphs(w io.Writer, all []string) {
	for _, line := range all {
		fmt.Fprintln(w, human.WrapAt(line, 0, textWidth))
	}
}

// text writes a table. Names and words get what figures leave of the width.
func (t *Table) text(w io.Writer) {
	var head []any
	widths := make([]int, len(t.Head))
	for i, h := range t.Head {
		name := h.Name
		if h.Unit != "" {
			name += "\n" + h.Unit
		}
		head = append(head, strings.ToLower(name[:1])+name[1:])
		widths[i] = longest(name)
	}
	rows := make([]table.Row, len(t.Rows))
	for i, r := range t.Rows {
		if r.Error != "" && !r.filled() {
			r.Cells = []Cell{r.Cells[0], {Text: "no figures"}}
		}
		for j, c := range r.Cells {
			s := c.Text
			if c.Small != "" {
				s += " (" + c.Small + ")"
			}
			if r.Strong && c.Strong {
				s += " *"
			}
			rows[i] = append(rows[i], s)
			widths[j] = max(widths[j], longest(s))
		}
	}
	left := textWidth - 1
	for _, n := range widths {
		left -= n + 3
	}
	out := human.Table(w, head...)
	columns := make([]table.ColumnConfig, len(t.Head))
	for i, h := range t.Head {
		columns[i] = table.ColumnConfig{Number: i + 1, Align: align.AlignRight}
		if !h.Words {
			continue
		}
		columns[i].Align = align.AlignLeft
		if left < 0 {
			n := max(12, widths[i]+left)
			left += widths[i] - n
			columns[i].WidthMax, columns[i].WidthMaxEnforcer = n, align.WrapSoft
		}
	}
	for _, r := range rows {
		out.AppendRow(r)
	}
	out.SetColumnConfigs(columns)
	out.Render()
}

// longest is the length of the longest line, in runes.
func longest(s string) (n int) {
	for line := range strings.SplitSeq(s, "\n") {
		n = max(n, len([]rune(line)))
	}
	return n
}

// Style is the style sheet of the page, for other pages of the program.
func Style() string {
	_, style, _ := strings.Cut(source, "<style>")
	style, _, _ = strings.Cut(style, "</style>")
	return style
}
