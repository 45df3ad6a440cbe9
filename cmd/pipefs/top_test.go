package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pipefs/pipefs/internal/account"
	"github.com/pipefs/pipefs/internal/control"
	"github.com/pipefs/pipefs/internal/testenv"
)

// What top shows are the changes since the look before; keys sort it and open the help.
func TestTop(t *testing.T) {
	second, daemon := 0, 1
	gone := errors.New("gone")
	shown := &top{width: 120, ask: func(history bool) (*control.Stats, error) {
		if history != (second == 0) {
			t.Errorf("look %d: history %v", second, history)
		}
		if second++; second > 3 {
			return nil, gone
		}
		n, at := int64(second), time.Unix(int64(second), 0)
		var past []account.Second
		if history {
			past = []account.Second{{Files: 220, Bytes: 500}}
		}
		return &control.Stats{PID: daemon, History: past, Mount: "/m", Source: "/data", Started: time.Unix(0, 0), Verdict: &account.Verdict{Text: "the disk is slow", Advice: []string{"buy another"}},
			Account: &account.Snapshot{At: at, Machine: account.Machine{Cores: 2},
				Views: []account.Seen{
					{View: "bmp", Reads: 100 * n, Begun: 50 * n, Bytes: 1000 * n, Waited: 1000 * n, Parts: account.Parts{Source: 750 * n, Copy: 250 * n}},
					{View: "half", Reads: 200 * n, Begun: 60 * n, Waited: 500 * n}, {View: "unused", Reads: 7}},
				Readers: []account.Reader{{PID: 4711, Command: "python3", Views: []string{"bmp"}, Requests: 100 * n, Reading: account.Reading{Waited: 60 * n, Slept: 40 * n}}, {PID: 1, Command: "sh"}},
			}}, nil
	}}
	testenv.Must(t, shown.look())
	see := func(want ...string) {
		t.Helper()
		view := shown.view()
		for _, w := range want {
			at := strings.Index(view, w)
			if at < 0 {
				t.Fatalf("%q is missing, or too early:\n%s", w, shown.view())
			}
			view = view[at:]
		}
	}
	testenv.Must(t, shown.look())
	see("/m of /data, up 2s", "110 files/s █▅", "1.00 kB/s", "the disk is slow", "→ buy another", "half", "60", "bmp", "50", "75 %", "25 %", "4711", "python3", "60 %", "40 %")
	if v := shown.view(); strings.Contains(v, "unused") || strings.Contains(v, "sh ") {
		t.Errorf("shows what did nothing:\n%s", v)
	}
	shown.press('s')
	see("by waiting", "bmp", "half")
	shown.press('?')
	see("waiting for the dataset or store")
	shown.width, shown.height = 20, 3
	if lines := strings.Split(shown.view(), "\n"); len(lines) != 3 || len([]rune(lines[0])) > 20 {
		t.Errorf("%q", lines)
	}
	if !shown.press('q') || shown.press('x') {
		t.Error("q does not quit, or x does")
	}
	daemon = 2 // it counts anew
	testenv.Must(t, shown.look())
	see("0 files/s")
	if err := shown.look(); !errors.Is(err, gone) {
		t.Errorf("the mount is gone: %v", err)
	}
}

// Names of files give a terminal no orders.
func TestControlCharacters(t *testing.T) {
	const name = "a\x1b[2J\nb.jpg"
	var out strings.Builder
	printStats(&out, &control.Stats{Counters: []control.Counter{{Group: "bad samples", Name: name, Unit: control.Text, Text: name}}}, time.Now())
	printExplanation(&out, &control.Explanation{Sample: name, From: name, Note: name})
	err := execute(t.Context(), &environ{stdout: &out, stderr: &out}, []string{"pipefs", "stats", "/nowhere/" + name})
	if got := out.String(); err == nil || strings.Contains(got, "\x1b") || strings.Count(got, `\x1b[2J`) < 5 {
		t.Errorf("%v: %q", err, got)
	}
}
