package chart

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/plot"
	gonum "gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Scatter is points with their labels. An axis whose values are all above zero and
// far apart is logarithmic, and says so.
func Scatter(title, x, y string, series ...Series) *Figure {
	return &Figure{Title: title, layout: points{x, y, series, false}.layout}
}

// Curves are points joined by lines.
func Curves(title, x, y string, series ...Series) *Figure {
	return &Figure{Title: title, layout: points{x, y, series, true}.layout}
}

type points struct {
	x, y   string
	series []Series
	joined bool
}

// farApart is from when on an axis of points is logarithmic.
const farApart = 30

// glyphs tell series apart where colours do not.
var glyphs = []draw.GlyphDrawer{draw.CircleGlyph{}, draw.BoxGlyph{}, draw.PyramidGlyph{}, draw.TriangleGlyph{}}

func (c points) layout(width vg.Length) *layout {
	p := newPlot()
	l := &layout{plot: p, height: upright(width), right: 6}
	p.Add(&gonum.Grid{Horizontal: rule})
	var places []placed
	for i, s := range c.series {
		var xys gonum.XYs
		for j := range min(len(s.X), len(s.Y)) {
			if !finite(s.X[j]) || !finite(s.Y[j]) {
				continue
			}
			at := placed{series: i, XY: gonum.XY{X: s.X[j], Y: s.Y[j]}, low: s.Y[j], high: s.Y[j]}
			if low, high, ok := s.interval(j); ok {
				at.low, at.high = low, high
				p.Y.Min, p.Y.Max = min(p.Y.Min, low), max(p.Y.Max, high)
			}
			if j < len(s.Labels) {
				at.label = shorten(textStyle(smallSize, ink), s.Labels[j], 0.4*width)
			}
			xys, places = append(xys, at.XY), append(places, at)
		}
		dots := &gonum.Scatter{XYs: xys, GlyphStyle: draw.GlyphStyle{Color: of(i), Radius: 3.6, Shape: glyphs[i%len(glyphs)]}}
		line := &gonum.Line{XYs: xys, LineStyle: draw.LineStyle{Color: of(i), Width: 1.5}}
		if i >= len(palette) {
			line.Dashes = []vg.Length{4, 2}
		}
		k := key{name: s.Name}
		if c.joined {
			p.Add(line)
			k.mark = append(k.mark, line)
		}
		p.Add(dots)
		k.mark = append(k.mark, dots)
		l.legend = append(l.legend, k)
	}
	p.Add(plotter(func(to draw.Canvas, p *plot.Plot) { c.annotate(to, p, places) }))

	ticks := linear
	if !c.joined && len(places) > 1 && p.X.Min > 0 && p.X.Max > farApart*p.X.Min {
		ticks, p.X.Scale = logarithmic, plot.LogScale{}
		c.x += " (logarithmic)"
	} else {
		fromZero(&p.X)
	}
	fromZero(&p.Y)
	fit(&p.X, width-60, ticksOn(width), ticks)
	fit(&p.Y, 10*width, 5, linear)
	p.X.Label.Text = shorten(p.X.Label.TextStyle, c.x, width-60)
	p.Y.Label.Text = shorten(p.Y.Label.TextStyle, c.y, l.height-axisHeight)
	p.Y.Width, p.Y.Tick.Length = 0, 0
	return l
}

// fromZero makes an axis begin at zero, unless that is far away.
func fromZero(a *plot.Axis) {
	switch low, high := a.Min, a.Max; {
	case low > high: // no points
		a.Min, a.Max = 0, 1
	case low == high && low != 0:
		a.Min, a.Max = low-math.Abs(low)/10, high+math.Abs(high)/10
	case low <= 0 || high-low >= high/2:
		a.Min, a.Max = min(low, 0), max(high, 0)
		if a.Min == a.Max {
			a.Max = 1
		}
	}
}

// placed is a point with what stands beside it.
type placed struct {
	gonum.XY
	series    int
	low, high float64 // the interval of Y
	label     string
}

// annotate draws intervals, and labels where they cover nothing, if there is such a
// place, with a line to those that are not near.
func (c points) annotate(to draw.Canvas, p *plot.Plot, all []placed) {
	x, y := p.Transforms(&to)
	around := func(at vg.Point, dx, dy vg.Length) vg.Rectangle {
		return vg.Rectangle{Min: vg.Point{X: at.X - dx, Y: at.Y - dy}, Max: vg.Point{X: at.X + dx, Y: at.Y + dy}}
	}
	thin := draw.LineStyle{Color: muted, Width: 1}
	var taken []vg.Rectangle
	for i, q := range all {
		at := vg.Point{X: x(q.X), Y: y(q.Y)}
		taken = append(taken, around(at, 5, 5))
		if q.high > q.low {
			to.StrokeLine2(thin, at.X, y(q.low), at.X, y(q.high))
			taken = append(taken, vg.Rectangle{Min: vg.Point{X: at.X - 1, Y: y(q.low)}, Max: vg.Point{X: at.X + 1, Y: y(q.high)}})
		}
		if c.joined && i > 0 && q.series == all[i-1].series {
			from := vg.Point{X: x(all[i-1].X), Y: y(all[i-1].Y)}
			steps := math.Ceil(math.Hypot(float64(at.X-from.X), float64(at.Y-from.Y)) / 3)
			for k := range int(steps) {
				taken = append(taken, around(from.Add(at.Sub(from).Scale(vg.Length(float64(k)/steps))), 1.5, 1.5))
			}
		}
	}
	style := textStyle(smallSize, ink)
	thin.Width = 0.6
	ordered := slices.SortedStableFunc(slices.Values(all), func(a, b placed) int { return cmp.Compare(a.X, b.X) })
	for _, q := range ordered {
		if q.label == "" {
			continue
		}
		at := vg.Point{X: x(q.X), Y: y(q.Y)}
		box := freePlace(at, style.Width(q.label), smallSize, taken, to.Rectangle)
		near := vg.Point{X: max(box.Min.X, min(at.X, box.Max.X)), Y: max(box.Min.Y, min(at.Y, box.Max.Y))}
		if away := near.Sub(at); away.Dot(away) > 81 {
			to.StrokeLine2(thin, at.X+away.X/2, at.Y+away.Y/2, near.X, near.Y)
		}
		to.FillText(style, vg.Point{X: box.Min.X, Y: box.Min.Y + 2}, q.label)
		taken = append(taken, box)
	}
}

// freePlace is the rectangle around a point that covers the least of what is taken,
// near the point and within bounds if possible.
func freePlace(at vg.Point, width, height vg.Length, taken []vg.Rectangle, bounds vg.Rectangle) vg.Rectangle {
	best, least := vg.Rectangle{}, math.Inf(1)
	for ring := range 6 {
		d := 7 + 9*vg.Length(ring)
		for _, way := range []vg.Point{{X: 1}, {X: -1}, {Y: 1}, {Y: -1}, {X: 0.8, Y: 0.8}, {X: 0.8, Y: -0.8}, {X: -0.8, Y: 0.8}, {X: -0.8, Y: -0.8}} {
			corner := at.Add(way.Scale(d)).Sub(vg.Point{Y: height / 2})
			switch {
			case way.X < 0:
				corner.X -= width
			case way.X == 0:
				corner.X -= width / 2
			}
			box := vg.Rectangle{Min: corner, Max: corner.Add(vg.Point{X: width, Y: height})}
			cost := 2*float64(ring) + 50*(float64(width*height)-common(box, bounds))
			for _, t := range taken {
				cost += 10 * common(box, t)
			}
			if cost < least {
				best, least = box, cost
			}
		}
	}
	return best
}

// common is the area of two rectangles together.
func common(a, b vg.Rectangle) float64 {
	w, h := min(a.Max.X, b.Max.X)-max(a.Min.X, b.Min.X), min(a.Max.Y, b.Max.Y)-max(a.Min.Y, b.Min.Y)
	return float64(max(0, w) * max(0, h))
}
