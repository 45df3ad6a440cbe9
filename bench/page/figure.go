package page

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// series are values of one kind. A value that is not finite is left out.
type series struct {
	name      string
	x, y      []float64 // of points; bars have y only, one for each name
	low, high []float64 // the intervals of y, or empty
	labels    []string  // of points, or empty
}

// interval of the i-th value; both ends are the value itself if there is none.
func (s *series) interval(i int) (low, high float64) {
	if i >= len(s.low) || i >= len(s.high) || !finite(s.low[i]) || !finite(s.high[i]) {
		return s.y[i], s.y[i]
	}
	return s.low[i], s.high[i]
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// figure is a chart in HTML and CSS: bars, or points. All numbers but texts are per cent of
// the room for the chart.
type figure struct {
	Title, Caption string
	Label          string // of the axis of the bars
	Legend         []key
	Groups         []group
	Stacked        bool
	Plots          []*plot // for a wide screen and for a narrow one
}

// key is a row of the legend. Colours have numbers; page.html defines them.
type key struct {
	Color int
	Name  string
}

// group is the bars of one name.
type group struct {
	Name string
	Bars []bar
}

// bar has an interval if Span is more than 0, and ends, or ends its interval, at End.
type bar struct {
	Color                 int
	Length, Low, Span, At float64
	Text                  string
}

// percent rounds a share, so that pages are small.
func percent(v float64) float64 { return math.Round(1e4*v) / 100 }

func legend(all []series) (keys []key) {
	for i, s := range all {
		keys = append(keys, key{i % colors, s.name})
	}
	if len(keys) < 2 {
		return nil
	}
	return keys
}

// colors is how many page.html has.
const colors = 4

// barFigure is a group of bars a name, one for each series, or one that is made up of all
// series. label says what their length is.
func barFigure(title, label string, names []string, stacked bool, all ...series) *figure {
	f := &figure{Title: title, Label: label, Legend: legend(all), Stacked: stacked}
	longest := 0.0
	for j := range names {
		sum := 0.0
		for i := range all {
			s := &all[i]
			if j >= len(s.y) || !finite(s.y[j]) {
				continue
			}
			_, high := s.interval(j)
			sum += max(0, s.y[j])
			longest = max(longest, high)
		}
		if stacked {
			longest = max(longest, sum)
		}
	}
	longest = cmp.Or(longest, 1)
	for j, name := range names {
		g := group{Name: name}
		for i := range all {
			s := &all[i]
			if j >= len(s.y) || !finite(s.y[j]) {
				continue
			}
			b := bar{Color: i % colors, Length: percent(max(0, s.y[j]) / longest), Text: Number(s.y[j])}
			if low, high := s.interval(j); !stacked && high > max(0, low) {
				low, high = max(0, low), max(0, high)
				b.Low, b.Span = percent(low/longest), percent((high-low)/longest)
			}
			b.At = max(b.Length, b.Low+b.Span)
			if stacked && b.Length < 1.2*float64(len(b.Text))+2 {
				b.Text = "" // there is no room for it
			}
			g.Bars = append(g.Bars, b)
		}
		f.Groups = append(f.Groups, g)
	}
	return f
}

// plot is points on two axes, for a screen of one width.
type plot struct {
	X, Y   string // what is on the axes
	XTicks []tick
	YTicks []tick
	Points []point
	Lines  []string // of curves: places of points, in per cent
	Narrow bool
}

type tick struct {
	At   float64
	Text string
}

// point is a point with its label, Right and Up pixels away.
type point struct {
	Color     int
	X, Y      float64
	Low, Span float64 // the interval of Y
	Label     string
	Right, Up float64
}

// pointFigure is points with their labels, joined by lines or not. An axis of points whose
// values are all above zero and far apart is logarithmic, and says so.
func pointFigure(title, x, y string, joined bool, all ...series) *figure {
	f := &figure{Title: title, Legend: legend(all)}
	for _, width := range []float64{560, 340} {
		f.Plots = append(f.Plots, newPlot(x, y, joined, width, all))
	}
	f.Plots[1].Narrow = true
	return f
}

// farApart is the ratio from which on an axis is logarithmic.
const farApart = 30

// The room for points beside the axes, in pixels, as page.html has it.
const plotHeight, axisWidth = 240, 56

func newPlot(x, y string, joined bool, width float64, all []series) *plot {
	p := &plot{X: x, Y: y}
	xs, ys := axis{low: math.Inf(1), high: math.Inf(-1)}, axis{low: math.Inf(1), high: math.Inf(-1)}
	each := func(use func(i int, s *series, j int)) {
		for i := range all {
			for j := range min(len(all[i].x), len(all[i].y)) {
				if finite(all[i].x[j]) && finite(all[i].y[j]) {
					use(i, &all[i], j)
				}
			}
		}
	}
	each(func(_ int, s *series, j int) {
		low, high := s.interval(j)
		xs.add(s.x[j], s.x[j])
		ys.add(low, high)
	})
	if !joined && xs.low > 0 && xs.high > farApart*xs.low {
		xs.log, p.X = true, x+" (logarithmic)"
	}
	width -= axisWidth
	p.XTicks, p.YTicks = xs.ticks(int(width/80)), ys.ticks(5)
	var boxes []box
	var fromX, fromY float64
	lines := make([][]string, len(all))
	each(func(i int, s *series, j int) {
		low, high := s.interval(j)
		q := point{Color: i % colors, X: xs.at(s.x[j]), Y: ys.at(s.y[j]), Low: ys.at(low), Span: ys.at(high) - ys.at(low)}
		if j < len(s.labels) {
			q.Label = s.labels[j]
		}
		p.Points = append(p.Points, q)
		px, py := width*q.X/100, plotHeight*q.Y/100
		boxes = append(boxes, box{px - 5, py - 5, px + 5, py + 5})
		if joined && j > 0 {
			for t := 0.0; t < 1; t += .02 { // the line from the point before
				x, y := fromX+t*(px-fromX), fromY+t*(py-fromY)
				boxes = append(boxes, box{x - 1.5, y - 1.5, x + 1.5, y + 1.5})
			}
		}
		fromX, fromY = px, py
		lines[i] = append(lines[i], fmt.Sprintf("%.2f,%.2f", q.X, 100-q.Y))
	})
	if joined {
		for _, l := range lines {
			p.Lines = append(p.Lines, strings.Join(l, " "))
		}
	}
	for i := range p.Points {
		q := &p.Points[i]
		at := freePlace(width*q.X/100, plotHeight*q.Y/100, q.Label, boxes, width)
		boxes = append(boxes, at)
		q.Right, q.Up = math.Round(at.left-width*q.X/100), math.Round(at.bottom-plotHeight*q.Y/100)
	}
	return p
}

// box is a rectangle of a plot, in pixels from its lower left.
type box struct{ left, bottom, right, top float64 }

// overlap is the area of two rectangles together.
func (b box) overlap(c box) float64 {
	return max(0, min(b.right, c.right)-max(b.left, c.left)) * max(0, min(b.top, c.top)-max(b.bottom, c.bottom))
}

// freePlace is where the label of a point covers the least of what is taken, near the point.
func freePlace(x, y float64, label string, taken []box, width float64) (best box) {
	const letter, line = 6.2, 14 // no less than what letters take
	w, least := letter*float64(min(24, len([]rune(label)))), math.Inf(1)
	for ring := range 6 {
		d := 7 + 8*float64(ring)
		for _, way := range [][2]float64{{1, 0}, {-1, 0}, {0, 1}, {0, -1}, {.8, .8}, {.8, -.8}, {-.8, .8}, {-.8, -.8}} {
			b := box{left: x + d*way[0], bottom: y + d*way[1] - line/2}
			switch {
			case way[0] < 0:
				b.left -= w
			case way[0] == 0:
				b.left -= w / 2
			}
			b.right, b.top = b.left+w, b.bottom+line
			cost := 2*float64(ring) + 50*(w*line-b.overlap(box{0, 0, width, plotHeight}))
			for _, t := range taken {
				cost += 10 * b.overlap(t)
			}
			if cost < least {
				best, least = b, cost
			}
		}
	}
	return best
}

// axis is a range of values.
type axis struct {
	low, high float64
	log       bool
}

func (a *axis) add(low, high float64) { a.low, a.high = min(a.low, low), max(a.high, high) }

// at is where a value lies, in per cent of the axis.
func (a *axis) at(v float64) float64 {
	if a.log {
		return percent(math.Log(v/a.low) / math.Log(a.high/a.low))
	}
	return percent((v - a.low) / (a.high - a.low))
}

// ticks rounds the range to about so many ticks. It begins at zero, unless that is far away.
func (a *axis) ticks(about int) (all []tick) {
	var values []float64
	switch {
	case a.log:
		values = logarithmic(a.low, a.high, about)
	case a.low > a.high: // no points
		values = []float64{0, 1}
	case a.low == a.high && a.low != 0:
		values = Linear(a.low-math.Abs(a.low)/10, a.high+math.Abs(a.high)/10, about)
	case a.low <= 0 || a.high-a.low >= a.high/2:
		low, high := min(a.low, 0), max(a.high, 0)
		if low == high {
			high = 1
		}
		values = Linear(low, high, about)
	default:
		values = Linear(a.low, a.high, about)
	}
	a.low, a.high = slices.Min(values), slices.Max(values)
	if a.low == a.high { // too close for numbers
		a.high = math.Nextafter(a.high, math.Inf(1))
	}
	for _, v := range values {
		all = append(all, tick{a.at(v), TickText(v)})
	}
	return all
}
