package terminal

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"
)

func TestLogLines(t *testing.T) {
	var b bytes.Buffer
	Logger(&b, "text", "warn").Info("silent")
	Logger(&b, "text", "warn").Error("I/O error", "sample", "a b.jpg", "offset", 7)
	if want := `^time=\S+ level=ERROR msg="I/O error" sample="a b.jpg" offset=7\n$`; !regexp.MustCompile(want).MatchString(b.String()) {
		t.Errorf("got %q", b.String())
	}
	b.Reset()
	Logger(&b, "json", "debug").Debug("x", "pack", 3)
	var line struct {
		Level, Msg string
		Pack       int
	}
	if err := json.Unmarshal(b.Bytes(), &line); err != nil || line.Level != "DEBUG" || line.Msg != "x" || line.Pack != 3 {
		t.Errorf("got %q, %v", b.String(), err)
	}
}

func TestProgressLine(t *testing.T) {
	now := time.Now()
	p := &Progress{what: "packing", total: 5000, n: 1200, started: now.Add(-4 * time.Second)}
	if got, want := p.line(now), "packing: 1,200 of 5,000 (24%), 300/s, 13s left"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	p.total = -1
	if got, want := p.line(now), "packing: 1,200, 300/s"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	var b bytes.Buffer
	p = NewProgress(&b, "x", 10)
	p.Add(5)
	if b.Len() != 0 {
		t.Errorf("at once: %q", b.String())
	}
	p.shown.next = now.Add(-time.Second)
	p.Add(1)
	if !strings.HasPrefix(b.String(), "x: 6 of 10 (60%)") {
		t.Errorf("got %q", b.String())
	}
}
