package terminal

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/pipefs/pipefs/internal/human"
)

// Phases shows which of many short things is being done: one line that is written over on
// a terminal, and one every few seconds elsewhere.
type Phases struct {
	w    io.Writer
	over bool      // a terminal
	next time.Time // of the next line
}

const (
	lineEvery = 5 * time.Second
	overEvery = 100 * time.Millisecond
)

// NewPhases shows them on the standard error.
func NewPhases(stderr io.Writer) *Phases {
	f, ok := stderr.(*os.File)
	return &Phases{w: stderr, over: ok && term.IsTerminal(int(f.Fd()))}
}

// Show says what is being done.
func (s *Phases) Show(what string) {
	switch now := time.Now(); {
	case s.over:
		fmt.Fprintf(s.w, "\r\x1b[K%s", what)
		s.next = now.Add(overEvery)
	case now.After(s.next):
		s.next = now.Add(lineEvery)
		fmt.Fprintln(s.w, what)
	}
}

// Done takes the line away.
func (s *Phases) Done() {
	if s.over {
		fmt.Fprint(s.w, "\r\x1b[K")
	}
}

// Progress shows how far something is, with rate and time left. What is done quickly shows
// nothing where there is no terminal.
type Progress struct {
	mu      sync.Mutex
	shown   *Phases
	what    string
	total   int // -1 while it is not known
	n       int
	started time.Time
}

// NewProgress starts one. The total may be -1 and set later.
func NewProgress(stderr io.Writer, what string, total int) *Progress {
	p := &Progress{shown: NewPhases(stderr), what: what, total: total, started: time.Now()}
	if !p.shown.over {
		p.shown.next = p.started.Add(lineEvery)
	}
	return p
}

// SetTotal tells the total once it is known.
func (p *Progress) SetTotal(total int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.total = total
}

// Add adds to what is done.
func (p *Progress) Add(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.set(p.n + n)
}

// Reach sets how much is done.
func (p *Progress) Reach(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.set(n)
}

func (p *Progress) set(n int) {
	p.n = n
	if now := time.Now(); now.After(p.shown.next) {
		p.shown.Show(p.line(now))
	}
}

// line is "packing: 1,200 of 5,000 (24%), 310/s, 12s left".
func (p *Progress) line(now time.Time) string {
	s := fmt.Sprintf("%s: %s", p.what, human.Count(p.n))
	elapsed := now.Sub(p.started).Seconds()
	rate := float64(p.n) / max(elapsed, 0.001)
	if p.total > 0 {
		s += fmt.Sprintf(" of %s (%d%%)", human.Count(p.total), min(100, 100*p.n/p.total))
	}
	s += fmt.Sprintf(", %.0f/s", rate)
	if p.total > p.n && rate > 0 {
		left := time.Duration(float64(p.total-p.n) / rate * float64(time.Second))
		s += fmt.Sprintf(", %s left", left.Round(time.Second))
	}
	return s
}

// Done takes the line away.
func (p *Progress) Done() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shown.Done()
}
