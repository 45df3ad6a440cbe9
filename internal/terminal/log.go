package terminal

import (
	"io"
	"log/slog"
)

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
