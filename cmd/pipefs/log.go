package main

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
)

// maxLog is the size from which on a log is put aside when a daemon starts.
const maxLog = 16 << 20 // bytes

// openLog opens a log to append to. One that grew large is kept as FILE.old.
func openLog(path string) (*os.File, error) {
	if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Size() > maxLog {
		_ = os.Rename(path, path+".old")
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("log: %w", err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("log: %w", err)
	}
	return f, nil
}

// quiet logs for commands that people watch: only what they should know.
func quiet(env *environ) *slog.Logger { return newLogger(env.stderr, "text", "warn") }

// newLogger logs lines of key=value, or of JSON.
func newLogger(w io.Writer, format, level string) *slog.Logger {
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
