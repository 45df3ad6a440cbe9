package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// formatSize writes a number of bytes for people, in decimal units.
func formatSize(n int64) string {
	if n < 1000 {
		return fmt.Sprintf("%d B", n)
	}
	f := float64(n)
	for _, unit := range []string{"kB", "MB", "GB", "TB", "PB"} {
		f /= 1000
		if f < 999.5 || unit == "PB" {
			if f < 9.995 {
				return fmt.Sprintf("%.2f %s", f, unit)
			}
			if f < 99.95 {
				return fmt.Sprintf("%.1f %s", f, unit)
			}
			return fmt.Sprintf("%.0f %s", f, unit)
		}
	}
	return ""
}

// formatCount writes a number with its thousands apart: 1,281,167.
func formatCount[T ~int | ~int64](n T) string {
	s := strconv.FormatInt(int64(n), 10)
	first := 0
	if n < 0 {
		first = 1
	}
	for i := len(s) - 3; i > first; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// plural writes a count with its noun: 1 file, 2 files.
func plural[T ~int | ~int64](n T, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return formatCount(n) + " " + many
}

// formatShare writes a share as people do: 30%.
func formatShare(share float64) string { return fmt.Sprintf("%.4g%%", 100*share) }

func percent(share float64) string { return fmt.Sprintf("%.0f %%", 100*share) }

const (
	width     = 80  // columns of notes and tables
	helpWidth = 110 // columns of the help
)

// wrap breaks text into lines, all but the first indented.
func wrap(text string, margin int) string { return wrapAt(text, margin, width) }

func wrapAt(text string, margin, width int) string {
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

// indent puts a margin before each line.
func indent(text, margin string) string {
	return margin + strings.ReplaceAll(text, "\n", "\n"+margin)
}

// note writes a note below a table.
func note(w io.Writer, format string, args ...any) {
	fmt.Fprintf(w, "note: %s\n", wrap(fmt.Sprintf(format, args...), 6))
}

func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// newTable is a table in the style of all our tables.
func newTable(w io.Writer, head ...any) table.Writer {
	t := table.NewWriter()
	t.SetOutputMirror(w)
	t.SetStyle(table.StyleLight)
	t.Style().Format.Header = text.FormatDefault
	t.AppendHeader(table.Row(head))
	return t
}

// right aligns columns of numbers.
func right(t table.Writer, columns ...int) {
	configs := make([]table.ColumnConfig, len(columns))
	for i, n := range columns {
		configs[i] = table.ColumnConfig{Number: n, Align: text.AlignRight}
	}
	t.SetColumnConfigs(configs)
}
