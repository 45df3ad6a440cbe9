package human

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"

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

// Failure is why something was not done with some files.
type Failure struct {
	Cause string   `json:"cause"`
	Count int64    `json:"count"`
	Files []string `json:"files"` // all with --json, else the first
}

// mostNamed is how many files are named of those that failed for one cause.
const mostNamed = 10

// Failures are all that went wrong, by cause. The zero value is ready.
type Failures struct {
	AllNames bool // keeps the names of all files
	List     []*Failure

	mu     sync.Mutex
	causes map[string]*Failure
}

// Add takes note of one file.
func (l *Failures) Add(path string, err error) {
	cause := err.Error()
	// The cause is the same for all files that nobody may read.
	if p := (*os.PathError)(nil); errors.As(err, &p) && strings.HasSuffix(p.Path, path) {
		cause = p.Op + ": " + p.Err.Error()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.causes[cause]
	if f == nil {
		f = &Failure{Cause: cause}
		if l.causes == nil {
			l.causes = map[string]*Failure{}
		}
		l.causes[cause] = f
		l.List = append(l.List, f)
	}
	f.Count++
	if l.AllNames || len(f.Files) < mostNamed {
		f.Files = append(f.Files, path)
	}
}

// Tell prints one line for each cause: "pipefs: not exported: a.jpg, b.jpg: why".
func (l *Failures) Tell(w io.Writer, what string) {
	for _, f := range l.List {
		slices.Sort(f.Files)
		names := strings.Join(f.Files[:min(len(f.Files), mostNamed)], ", ")
		if more := f.Count - mostNamed; more > 0 {
			names += fmt.Sprintf(" and %s more (--json names all)", Count(more))
		}
		fmt.Fprintf(w, "pipefs: %s: %s: %s\n", what, names, f.Cause)
	}
}

// Logger logs lines of key=value, or of JSON.
func Logger(w io.Writer, format, level string) *slog.Logger {
	o := &slog.HandlerOptions{Level: slog.LevelInfo}
	var l slog.Level
	if l.UnmarshalText([]byte(level)) == nil {
		o.Level = l
	}
	if format == "json" {
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return slog.New(slog.NewTextHandler(w, o))
}
