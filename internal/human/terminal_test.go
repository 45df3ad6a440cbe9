package human

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jedib0t/go-pretty/v6/text"
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
	synctest.Test(t, func(t *testing.T) {
		p := newProgress(nil, "packing", 5000)
		time.Sleep(4 * time.Second)
		p.Reach(1200)
		for _, c := range []struct {
			total int
			want  string
		}{
			{5000, "packing: 1,200 of 5,000 (24%), 300/s, 13s left"},
			{-1, "packing: 1,200, 300/s"},
			{1000, "packing: 1,200 of 1,000 (100%), 300/s"}, // files came meanwhile
		} {
			if p.SetTotal(c.total); p.Line() != c.want {
				t.Errorf("got %q, want %q", p.Line(), c.want)
			}
		}
		if p.Reach(6); !strings.HasSuffix(p.Line(), "6 of 1,000 (0%), 1.5/s, 11m3s left") {
			t.Errorf("got %q", p.Line())
		}
	})
}

// A log gets a line every ten seconds, also while nothing goes on, and none of what is quick.
func TestProgressInLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		p := NewProgress(&b, "x", 10)
		p.Add(5)
		time.Sleep(9 * time.Second)
		if p.Done(); b.Len() != 0 {
			t.Errorf("of nine seconds: %q", b.String())
		}
		p = NewProgress(&b, "x", 10)
		p.Add(5)
		time.Sleep(21 * time.Second)
		p.Show("something else")
		time.Sleep(10 * time.Second)
		p.Done()
		p.Done()
		want := "x: 5 of 10 (50%), 0.5/s, 10s left\nx: 5 of 10 (50%), 0.2/s, 20s left\nsomething else\n"
		if b.String() != want {
			t.Errorf("got %q, want %q", b.String(), want)
		}
	})
}

// A terminal gets a bar after two seconds, which Done takes away.
func TestProgressBar(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		start := func() *Progress {
			p := newProgress(&b, "packing", 10)
			p.Add(5)
			go p.run(70)
			return p
		}
		p := start()
		time.Sleep(time.Second)
		if p.Done(); b.Len() != 0 {
			t.Errorf("of a second: %q", b.String())
		}
		p = start()
		time.Sleep(5 * time.Second)
		p.Done()
		lines := strings.Split(b.String(), "\n")
		last := lines[len(lines)-2] // the bar
		if !strings.Contains(last, "███") || !strings.Contains(last, "packing: 5 of 10 (50%), 1.0/s, 5s left") {
			t.Errorf("the bar is %q", last)
		}
		if shown := text.StripEscape(last); text.StringWidthWithoutEscSequences(last) > 70 {
			t.Errorf("too wide for a terminal of 70 columns: %q", shown)
		}
		if !strings.HasSuffix(lines[len(lines)-1], text.CursorUp.Sprint()+"\r"+text.EraseLine.Sprint()) {
			t.Errorf("it ends with %q", lines[len(lines)-1])
		}
	})
}
