package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"
)

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
