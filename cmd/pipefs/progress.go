package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// progress shows how far something is: a bar with rate and ETA on a terminal, a
// plain line every few seconds elsewhere, and nothing at all if it is quick.
type progress struct {
	mu      sync.Mutex
	w       io.Writer
	what    string
	total   int // -1 while it is not known
	n       int
	bar     *progressbar.ProgressBar // nil where there is no terminal
	started time.Time
	next    time.Time // of the next plain line
}

const (
	plainEvery = 5 * time.Second
	barEvery   = 100 * time.Millisecond
)

// newProgress starts one. The total may be -1 and set later.
func newProgress(env *environ, what string, total int) *progress {
	now := time.Now()
	p := &progress{w: env.stderr, what: what, total: total, started: now, next: now.Add(plainEvery)}
	if f, ok := env.stderr.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		p.bar = progressbar.NewOptions(total, progressbar.OptionSetWriter(f), progressbar.OptionSetDescription(what),
			progressbar.OptionShowCount(), progressbar.OptionShowIts(), progressbar.OptionSetItsString("samples"),
			progressbar.OptionThrottle(barEvery), progressbar.OptionClearOnFinish(), progressbar.OptionSetPredictTime(true),
			progressbar.OptionFullWidth())
	}
	return p
}

// setTotal tells the total once it is known.
func (p *progress) setTotal(total int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.total = total
	if p.bar != nil && total > 0 {
		p.bar.ChangeMax(total)
	}
}

func (p *progress) add(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.set(p.n+n, time.Now())
}

// reach sets how much is done.
func (p *progress) reach(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.set(n, time.Now())
}

func (p *progress) set(n int, now time.Time) {
	p.n = n
	switch {
	case p.bar != nil:
		_ = p.bar.Set(n)
	case now.After(p.next):
		p.next = now.Add(plainEvery)
		fmt.Fprintln(p.w, p.line(now))
	}
}

// line is the plain form: "packing: 1,200 of 5,000 (24%), 310/s, 12s left".
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

// done takes the bar away.
func (p *progress) done() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bar != nil {
		_ = p.bar.Finish()
	}
}

// phases shows which of many short things is being done: one line that is written
// over on a terminal, and one every few seconds elsewhere.
type phases struct {
	w    io.Writer
	over bool
	next time.Time
}

func newPhases(env *environ) *phases {
	f, ok := env.stderr.(*os.File)
	return &phases{w: env.stderr, over: ok && term.IsTerminal(int(f.Fd()))}
}

func (s *phases) show(what string) {
	switch now := time.Now(); {
	case s.over:
		fmt.Fprintf(s.w, "\r\x1b[K%s", what)
	case now.After(s.next):
		s.next = now.Add(plainEvery)
		fmt.Fprintln(s.w, what)
	}
}

func (s *phases) done() {
	if s.over {
		fmt.Fprint(s.w, "\r\x1b[K")
	}
}
