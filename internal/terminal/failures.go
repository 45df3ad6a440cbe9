package terminal

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/pipefs/pipefs/internal/human"
)

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
			names += fmt.Sprintf(" and %s more (--json names all)", human.Count(more))
		}
		fmt.Fprintf(w, "pipefs: %s: %s: %s\n", what, names, f.Cause)
	}
}
