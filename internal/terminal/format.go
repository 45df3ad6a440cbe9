package terminal

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

const (
	// width is that of notes below tables, in columns.
	width = 80
	// HelpWidth is that of the help.
	HelpWidth = 110
)

// Wrap breaks text into lines, all but the first indented.
func Wrap(text string, margin int) string { return WrapAt(text, margin, width) }

// WrapAt is Wrap for lines of another width.
func WrapAt(text string, margin, width int) string {
	var b strings.Builder
	column := margin
	for i, word := range strings.Fields(text) {
		n := len([]rune(word))
		switch {
		case i == 0:
		case column+1+n > width:
			b.WriteString("\n" + strings.Repeat(" ", margin))
			column = margin
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += n
	}
	return b.String()
}

// Indent puts a margin before each line.
func Indent(text, margin string) string {
	return margin + strings.ReplaceAll(text, "\n", "\n"+margin)
}

// Note writes a note below a table.
func Note(w io.Writer, format string, args ...any) {
	fmt.Fprintf(w, "note: %s\n", Wrap(fmt.Sprintf(format, args...), 6))
}

// PrintJSON writes a value for programs.
func PrintJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// Table is a table in the style of all our tables.
func Table(w io.Writer, head ...any) table.Writer {
	t := table.NewWriter()
	t.SetOutputMirror(w)
	t.SetStyle(table.StyleLight)
	t.Style().Format.Header = text.FormatDefault
	t.AppendHeader(table.Row(head))
	return t
}

// Right aligns columns of numbers.
func Right(t table.Writer, columns ...int) {
	configs := make([]table.ColumnConfig, len(columns))
	for i, n := range columns {
		configs[i] = table.ColumnConfig{Number: n, Align: text.AlignRight}
	}
	t.SetColumnConfigs(configs)
}
