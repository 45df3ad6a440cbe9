package main

import (
	"fmt"
	"io"
	"log/slog"

	"github.com/pipefs/pipefs/internal/terminal"
)

func noter(w io.Writer) func(format string, args ...any) {
	return func(format string, args ...any) { fmt.Fprintf(w, "pipefs: note: "+format+"\n", args...) }
}

// quiet logs for commands that people watch: only what they should know.
func quiet(env *environ) *slog.Logger { return terminal.Logger(env.stderr, "text", "warn") }
