package human

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/jedib0t/go-pretty/v6/progress"
	"github.com/jedib0t/go-pretty/v6/text"
	"golang.org/x/term"
)

const (
	// barAfter is how long a command may work before a terminal shows a bar.
	barAfter = 2 * time.Second
	// barEvery is how often the bar is drawn.
	barEvery = 100 * time.Millisecond
	// lineEvery is the time between lines where there is no terminal.
	lineEvery = 10 * time.Second
)

// Progress shows how far a command is, with rate and time left: as a bar on a terminal, and as a
// line every ten seconds elsewhere.
type Progress struct {
	w           io.Writer
	what        string
	started     time.Time
	stop, ended chan struct{}
	done        sync.Once

	mu    sync.Mutex
	total int // -1 while it is not known
	n     int
	shown string // by Show
}

// NewProgress starts one. The total may be -1 and set later.
func NewProgress(stderr io.Writer, what string, total int) *Progress {
	p := newProgress(stderr, what, total)
	width := 0
	if f, ok := stderr.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		if width, _, _ = term.GetSize(int(f.Fd())); width <= 0 {
			width = 80
		}
	}
	go p.run(width)
	return p
}

func newProgress(w io.Writer, what string, total int) *Progress {
	return &Progress{w: w, what: what, total: total, started: time.Now(), stop: make(chan struct{}), ended: make(chan struct{})}
}

// NewPhases starts one for a command that does many short things, see [Progress.Show].
func NewPhases(stderr io.Writer) *Progress { return NewProgress(stderr, "", -1) }

// SetTotal tells the total once it is known.
func (p *Progress) SetTotal(total int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.total = total
}

// Add adds to what is done.
func (p *Progress) Add(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.n += n
}

// Reach sets how much is done.
func (p *Progress) Reach(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.n = n
}

// Show sets the text that is shown instead of counts.
func (p *Progress) Show(what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shown = what
}

// Line is what is shown now: "packing: 1,200 of 5,000 (24%), 310/s, 12s left".
func (p *Progress) Line() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shown != "" || p.what == "" {
		return p.shown
	}
	s := fmt.Sprintf("%s: %s", p.what, Count(p.n))
	rate := float64(p.n) / max(time.Since(p.started).Seconds(), 0.001)
	if p.total > 0 {
		s += fmt.Sprintf(" of %s (%d%%)", Count(p.total), min(100, 100*p.n/p.total))
	}
	digits := 0
	if rate < 10 {
		digits = 1
	}
	s += fmt.Sprintf(", %.*f/s", digits, rate)
	if p.total > p.n && rate > 0 {
		left := time.Duration(float64(p.total-p.n) / rate * float64(time.Second))
		s += fmt.Sprintf(", %s left", left.Round(time.Second))
	}
	return s
}

// Done takes the bar away.
func (p *Progress) Done() {
	p.done.Do(func() { close(p.stop) })
	<-p.ended
}

// run shows the progress until Done. width is that of the terminal; 0 is none.
func (p *Progress) run(width int) {
	defer close(p.ended)
	after := lineEvery
	if width > 0 {
		after = barAfter
	}
	tick := time.NewTicker(after)
	defer tick.Stop()
	for {
		select {
		case <-p.stop:
			return
		case <-tick.C:
		}
		if width > 0 {
			p.draw(width)
			return
		}
		if line := p.Line(); line != "" {
			fmt.Fprintln(p.w, line)
		}
	}
}

// draw shows a bar until Done.
func (p *Progress) draw(width int) {
	style := progress.StyleBlocks
	style.Visibility = progress.StyleVisibility{Tracker: true}
	style.Options.Separator = " "
	style.Options.PercentIndeterminate = ""
	bar := progress.NewWriter()
	bar.SetOutputWriter(p.w)
	bar.SetStyle(style)
	bar.SetTrackerPosition(progress.PositionLeft)
	bar.SetTerminalWidth(width)
	bar.SetUpdateFrequency(barEvery)
	tracker := &progress.Tracker{AutoStopDisabled: true}
	bar.AppendTracker(tracker)
	update := func() {
		tracker.UpdateMessage(p.Line())
		p.mu.Lock()
		defer p.mu.Unlock()
		tracker.UpdateTotal(int64(max(p.total, 0)))
		tracker.SetValue(int64(p.n))
	}
	update()
	rendered := make(chan struct{})
	go func() {
		defer close(rendered)
		bar.Render()
	}()
	tick := time.NewTicker(barEvery)
	defer tick.Stop()
	for stop := p.stop; ; {
		select {
		case <-stop:
			stop = nil
			bar.Stop() // has no effect before Render has begun, hence the next case
		case <-tick.C:
			if update(); stop == nil {
				bar.Stop()
			}
		case <-rendered:
			// The library leaves its last line.
			fmt.Fprint(p.w, text.CursorUp.Sprint(), "\r", text.EraseLine.Sprint())
			return
		}
	}
}
