package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/term"
)

// phases shows which of many short things is being done: one line that is written over on
// a terminal, and one every few seconds elsewhere.
type phases struct {
	w    io.Writer
	over bool      // a terminal
	next time.Time // of the next line
}

const (
	lineEvery = 5 * time.Second
	overEvery = 100 * time.Millisecond
)

func newPhases(env *environ) *phases {
	f, ok := env.stderr.(*os.File)
	return &phases{w: env.stderr, over: ok && term.IsTerminal(int(f.Fd()))}
}

func (s *phases) show(what string) {
	switch now := time.Now(); {
	case s.over:
		fmt.Fprintf(s.w, "\r\x1b[K%s", what)
		s.next = now.Add(overEvery)
	case now.After(s.next):
		s.next = now.Add(lineEvery)
		fmt.Fprintln(s.w, what)
	}
}

func (s *phases) done() {
	if s.over {
		fmt.Fprint(s.w, "\r\x1b[K")
	}
}

// progress shows how far something is, with rate and time left. What is done quickly shows
// nothing where there is no terminal.
type progress struct {
	mu      sync.Mutex
	shown   *phases
	what    string
	total   int // -1 while it is not known
	n       int
	started time.Time
}

// newProgress starts one. The total may be -1 and set later.
func newProgress(env *environ, what string, total int) *progress {
	p := &progress{shown: newPhases(env), what: what, total: total, started: time.Now()}
	if !p.shown.over {
		p.shown.next = p.started.Add(lineEvery)
	}
	return p
}

// setTotal tells the total once it is known.
func (p *progress) setTotal(total int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.total = total
}

func (p *progress) add(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.set(p.n + n)
}

// reach sets how much is done.
func (p *progress) reach(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.set(n)
}

func (p *progress) set(n int) {
	p.n = n
	if now := time.Now(); now.After(p.shown.next) {
		p.shown.show(p.line(now))
	}
}

// line is "packing: 1,200 of 5,000 (24%), 310/s, 12s left".
func (p *progress) line(now time.Time) string {
	s := fmt.Sprintf("%s: %s", p.what, formatCount(p.n))
	elapsed := now.Sub(p.started).Seconds()
	rate := float64(p.n) / max(elapsed, 0.001)
	if p.total > 0 {
		s += fmt.Sprintf(" of %s (%d%%)", formatCount(p.total), min(100, 100*p.n/p.total))
	}
	s += fmt.Sprintf(", %.0f/s", rate)
	if p.total > p.n && rate > 0 {
		left := time.Duration(float64(p.total-p.n) / rate * float64(time.Second))
		s += fmt.Sprintf(", %s left", left.Round(time.Second))
	}
	return s
}

// done takes the line away.
func (p *progress) done() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shown.done()
}
