package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/pipefs/pipefs/bench/research/chart"
)

// render writes the report and its figures.
func render(doc string, k *kept) error {
	dir := strings.TrimSuffix(doc, filepath.Ext(doc))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	var errs []error
	for _, i := range items() {
		r := k.Results[i.name]
		if i.run == nil || r == nil {
			continue
		}
		for _, f := range r.Figures {
			errs = append(errs, f.draw(filepath.Join(dir, f.File+".svg")))
		}
	}
	errs = append(errs, os.WriteFile(doc, []byte(markdown(k, filepath.Base(dir))), 0o644))
	return errors.Join(errs...)
}

func (f *figure) draw(file string) error {
	var series []chart.Series
	for _, l := range f.Lines {
		series = append(series, chart.Series{Name: l.Name, X: l.X, Y: l.Y})
	}
	if len(f.Names) > 0 {
		return chart.Columns(f.Title, f.Y, f.Names, series...).Save(file)
	}
	return chart.Curves(f.Title, f.X, f.Y, series...).Save(file)
}

const preamble = `# Reproduction

The tables and figures of the four papers, measured with pipefs. ` + "`make reproduce`" + ` writes this page;
` + "`make reproduce ARGS='-only NAME'`" + ` repeats the experiment whose name is below a table.

Rows marked (paper) quote the paper, rows marked **ours** were measured on the machine below: compare ratios within a row, not rates
between machines. An experiment at a scale below 1 shows only that it runs.
`

// markdown is the report. Figures are in a directory beside it.
func markdown(k *kept, figures string) string {
	var b strings.Builder
	b.WriteString(preamble)
	if k.Machine.CPU != "" {
		fmt.Fprintf(&b, "\nMachine: %d cores, %s, %.0f GB of memory, %s.\n", k.Machine.Cores, k.Machine.CPU, float64(k.Machine.Memory)/1e9, k.Machine.Kernel)
	}
	for _, p := range papers {
		fmt.Fprintf(&b, "\n## %s\n\n*%s* (%s).%s\n\n", p.name, p.title, p.venue, p.setup)
		b.WriteString("| item | the paper | here |\n|---|---|---|\n")
		var left []string
		for _, i := range items() {
			switch {
			case i.paper != p.key:
			case i.run == nil:
				left = append(left, i.part()+" ("+i.reason+")")
			default:
				fmt.Fprintf(&b, "| %s | %s | %s |\n", i.part(), i.says, i.outcome(k))
			}
		}
		fmt.Fprintf(&b, "\nNot reproduced: %s.\n", strings.Join(left, ", "))
		for _, i := range items() {
			if i.paper == p.key && i.run != nil {
				i.section(&b, k.Results[i.name], figures)
			}
		}
	}
	return b.String()
}

func orDash(s string) string {
	if s == "" {
		return "–"
	}
	return s
}

// outcome is the item's cell in the table of its paper.
func (i *item) outcome(k *kept) string {
	r := k.Results[i.name]
	switch {
	case r == nil:
		return "Not run yet."
	case r.Error != "":
		return "Failed: " + oneLine(r.Error)
	}
	return upper(r.Ours)
}

func upper(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// oneLine makes a message fit a cell.
func oneLine(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	return strings.ReplaceAll(s, "|", "\\|")
}

// section writes the measurements of an item. Its outcome is in the table of its paper.
func (i *item) section(b *strings.Builder, r *result, figures string) {
	fmt.Fprintf(b, "\n### %s %s: %s\n\n", nameOf(i.paper), i.part(), i.title)
	switch {
	case r == nil:
		b.WriteString("Not run yet.\n\n")
	case r.Error != "":
		fmt.Fprintf(b, "Failed: %s\n\n", oneLine(r.Error))
	default:
		if r.Again != "" {
			fmt.Fprintf(b, "%s\n\n", oneLine(r.Again))
		}
		for _, t := range r.Tables {
			t.markdown(b)
		}
		for _, f := range r.Figures {
			fmt.Fprintf(b, "![%s](%s/%s.svg)\n\n", f.Title, figures, f.File)
		}
		for _, n := range r.Notes {
			fmt.Fprintf(b, "- %s\n", n)
		}
	}
	fmt.Fprintf(b, "- Differs: %s.\n- `%s`", i.differs, i.name)
	if r != nil {
		if r.Setup != "" {
			fmt.Fprintf(b, ": %s", r.Setup)
		}
		fmt.Fprintf(b, "; %s, %.0f s", r.Time.Format(time.DateOnly), r.Seconds)
		if r.Scale != 1 {
			fmt.Fprintf(b, ", at a scale of %g", r.Scale)
		}
		if r.Version != "" && !strings.HasSuffix(r.Version, " devel") {
			fmt.Fprintf(b, ", %s", strings.Join(strings.Fields(r.Version), " "))
		}
	}
	b.WriteString("\n")
}

func (t *table) markdown(b *strings.Builder) {
	fmt.Fprintf(b, "| %s |\n|%s\n", strings.Join(t.Head, " | "), strings.Repeat("---|", len(t.Head)))
	for _, row := range t.Rows {
		fmt.Fprintf(b, "| %s |\n", strings.Join(row, " | "))
	}
	b.WriteByte('\n')
}
