package chart

import (
	"math"

	"gonum.org/v1/plot"
	gonum "gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// HorizontalBars is a group of bars a name, one for each series, with intervals where
// they are known. x says what their length is.
func HorizontalBars(title, x string, names []string, series ...Series) *Figure {
	return &Figure{Title: title, layout: bars{x, names, series, true, false}.layout}
}

// StackedBars is a bar a name, made up of the values of all series. x says what their
// length is.
func StackedBars(title, x string, names []string, series ...Series) *Figure {
	return &Figure{Title: title, layout: bars{x, names, series, true, true}.layout}
}

// Columns is a group of upright bars a name, one for each series. y says what their
// height is.
func Columns(title, y string, names []string, series ...Series) *Figure {
	return &Figure{Title: title, layout: bars{y, names, series, false, false}.layout}
}

// bars is a group of bars for each name.
type bars struct {
	label               string // of the axis of values
	names               []string
	series              []Series
	horizontal, stacked bool
}

// sizes are how thick a bar is and how far apart groups are.
func (b bars) sizes(width vg.Length) (thick, group vg.Length) {
	each := vg.Length(max(1, len(b.series)))
	switch {
	case !b.horizontal:
		group = (width - 50) / vg.Length(max(1, len(b.names)))
		return min(22, 0.8*group/each), group
	case b.stacked:
		return 15, 23
	case each == 1:
		return 14, 25
	}
	return 10.5, 10.5*each + 9
}

func (b bars) layout(width vg.Length) *layout {
	p := newPlot()
	l := &layout{plot: p, height: upright(width)}
	thick, group := b.sizes(width)
	// places of a series' bars, from the middle of their group, in groups
	place := func(series int) float64 {
		if b.stacked {
			return 0
		}
		return float64(thick/group) * (float64(series) - float64(len(b.series)-1)/2)
	}
	values, names := &p.Y, &p.X
	if b.horizontal {
		values, names = &p.X, &p.Y
		l.height = group*vg.Length(len(b.names)) + axisHeight
		p.Add(&gonum.Grid{Vertical: rule})
	} else {
		p.Add(&gonum.Grid{Horizontal: rule})
	}

	values.Min, values.Max = 0, 0
	var under *gonum.BarChart
	for i, s := range b.series {
		chart := &gonum.BarChart{Values: make(gonum.Values, len(b.names)), Width: thick - 1, Color: of(i), Horizontal: b.horizontal, XMin: place(i)}
		for j := range b.names {
			chart.Values[j], _ = s.value(j)
			if b.stacked {
				chart.Values[j] = max(0, chart.Values[j])
			} else if low, high, ok := s.interval(j); ok {
				values.Min, values.Max = min(values.Min, low), max(values.Max, high)
			}
		}
		if b.stacked {
			if under != nil {
				chart.StackOn(under)
			}
			under = chart
		}
		p.Add(chart)
		l.legend = append(l.legend, key{s.Name, []plot.Thumbnailer{chart}})
	}
	p.Add(plotter(func(c draw.Canvas, p *plot.Plot) { b.annotate(c, p, place) }))

	values.Label.Text = shorten(values.Label.TextStyle, b.label, 0.6*width)
	switch {
	case values.Min == values.Max:
		values.Max = 1
	case b.stacked && math.Abs(values.Max-100) < 0.5:
		values.Max = 100 // shares
	}
	if !b.horizontal {
		named(names, b.names, group-4)
		fit(values, 10*width, 5, linear)
		return l
	}
	named(names, b.names, 0.36*width)
	names.Scale = plot.InvertedScale{Normalizer: plot.LinearScale{}} // the first is on top
	fit(values, 0.6*width, ticksOn(0.6*width), linear)
	values.Width, values.Tick.Length = 0, 0
	if !b.stacked {
		l.right = values.Tick.Label.Width(Number(values.Max)) + 4
	}
	return l
}

// annotate draws intervals, and values as numbers: beside bars, and in those that are
// long enough where bars are stacked.
func (b bars) annotate(c draw.Canvas, p *plot.Plot, place func(series int) float64) {
	x, y := p.Transforms(&c)
	at := func(name int, series int, v float64) vg.Point {
		group := float64(name) + place(series)
		if b.horizontal {
			return vg.Point{X: x(v), Y: y(group)}
		}
		return vg.Point{X: x(group), Y: y(v)}
	}
	text := textStyle(smallSize, muted)
	text.YAlign = draw.YCenter
	for j := range b.names {
		sum := 0.0
		for i := range b.series {
			s := &b.series[i]
			v, ok := s.value(j)
			if !ok {
				continue
			}
			tip := max(0, v)
			switch {
			case b.stacked && v > 0:
				from, to := at(j, i, sum), at(j, i, sum+v)
				sum += v
				inside := text
				inside.XAlign, inside.Color = draw.XCenter, on(i)
				if t := Number(v); text.Width(t)+6 < to.X-from.X {
					c.FillText(inside, vg.Point{X: (from.X + to.X) / 2, Y: from.Y + 1}, t)
				}
			case !b.stacked:
				if low, high, ok := s.interval(j); ok {
					whisker(c, at(j, i, low), at(j, i, high))
					tip = max(tip, high)
				}
				if end := at(j, i, tip); b.horizontal {
					c.FillText(text, vg.Point{X: end.X + 4, Y: end.Y + 1}, Number(v))
				}
			}
		}
	}
}

// whisker is an interval, with a short line across at each end.
func whisker(c draw.Canvas, from, to vg.Point) {
	style := draw.LineStyle{Color: ink, Width: 1.2}
	c.StrokeLines(style, []vg.Point{from, to})
	across := vg.Point{X: 2.5}
	if from.Y == to.Y {
		across = vg.Point{Y: 2.5}
	}
	for _, end := range []vg.Point{from, to} {
		c.StrokeLines(style, []vg.Point{end.Sub(across), end.Add(across)})
	}
}
