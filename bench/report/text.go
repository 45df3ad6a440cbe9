package report

import (
	"fmt"
	"io"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	align "github.com/jedib0t/go-pretty/v6/text"

	"github.com/pipefs/pipefs/internal/terminal"
)

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
	paragraphs(w, d.Lines)
	for _, line := range d.Failures { // as they are, to be searched for
		fmt.Fprintln(w, line)
	}
	for _, s := range d.Sections {
		if s.Table != nil {
			fmt.Fprintln(w, "\n"+terminal.WrapAt(s.Title, 0, textWidth))
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
		fmt.Fprintln(w, terminal.WrapAt(line, 0, textWidth))
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
	out := terminal.Table(w, head...)
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
