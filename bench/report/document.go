package report

import (
	"strings"
	"time"

	"github.com/pipefs/pipefs/bench/stats"
)

// Document is what is shown. What is empty is left out.
type Document struct {
	Source string
	Time   time.Time
	Advice []Advice
	// Stopped: the run was interrupted, and has figures.
	Stopped  bool
	Facts    []Term   // of the page
	Lines    []string // of the text, in their place
	Failures []string // of rows, for the text
	Sections []Section
	Terms    []Term // of the page; those that are Explained are in the text, too
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

// Term is a word and what it means.
type Term struct {
	Word, Meaning string
	Explained     bool
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
func amount(v float64, format func(float64) string) Cell {
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
	return within(stats.Bootstrap(values), len(values))
}

// within is the cell of an interval, that of n measurements.
func within(i stats.Interval, n int) Cell {
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
