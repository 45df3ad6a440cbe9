package testenv

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// Proof is a line that a test writes for a row of docs/reliability.md.
type Proof struct {
	Row   string
	Done  int64   // how often the test did what the row counts
	Worst float64 `json:",omitempty"` // the largest value of what the row limits, such as the seconds of a pause
}

// Proved tells make soak that a test did what a row of docs/reliability.md counts, and how often, with the right outcome each
// time. A test that did nothing fails. PIPEFS_SOAK names the file; a value that is no absolute path names none.
func Proved[N int | int64](t testing.TB, row string, done N, worst ...float64) {
	t.Helper()
	if done <= 0 {
		t.Errorf("%s: nothing was done, so nothing is proved", row)
	}
	name := os.Getenv("PIPEFS_SOAK")
	if !filepath.IsAbs(name) || t.Failed() {
		return
	}
	p := Proof{Row: row, Done: int64(done)}
	for _, w := range worst {
		p.Worst = max(p.Worst, w)
	}
	line, err := json.Marshal(p)
	Must(t, err)
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	Must(t, err)
	defer f.Close()
	_, err = f.Write(append(line, '\n')) // one write: tests of other processes append, too
	Must(t, err)
}
