package chart

import (
	"math"
	"slices"
)

// Scatter is points with their labels. An axis whose values are all above zero and
// far apart is logarithmic, and says so.
func Scatter(title, x, y string, series ...Series) *Figure {
	return &Figure{Title: title, draw: func(p pen, width, top float64) float64 {
		return drawPoints(p, width, top, x, y, series, false)
	}}
}

// Curves are points joined by lines.
func Curves(title, x, y string, series ...Series) *Figure {
	return &Figure{Title: title, draw: func(p pen, width, top float64) float64 {
		return drawPoints(p, width, top, x, y, series, true)
	}}
}

// farApart is from when on an axis of points is logarithmic.
const farApart = 30

// placed is a point of a series where it is drawn.
type placed struct {
	point
	series    int
	label     string
	low, high float64 // of the interval, on the drawing
	interval  bool
}

func drawPoints(p pen, width, top float64, xLabel, yLabel string, series []Series, joined bool) float64 {
	top = legend(p, width, top, series, func(i int, x, y float64) {
		if joined {
			p.line([]point{{x - 7, y}, {x + 7, y}}, 1.5, of(i), i > len(palette))
		}
		marker(p, x, y, i)
	})
	var xs, ys []float64
	each(series, func(i, j int, x, y float64) {
		xs, ys = append(xs, x), append(ys, y)
		if low, high, ok := series[i].interval(j); ok {
			ys = append(ys, low, high)
		}
	})
	across := linear(xs, ticksOf(width))
	if !joined && len(xs) > 1 && slices.Min(xs) > 0 && slices.Max(xs) > farApart*slices.Min(xs) {
		across = logarithmic(slices.Min(xs), slices.Max(xs))
		xLabel += " (logarithmic)"
	}
	up := linear(ys, 5)
	left := yAxis(p, &up, width, top, yLabel)
	across.from, across.to = left+6, width-10
	xAxisOfPoints(p, across, up, width, xLabel)

	var all []placed
	each(series, func(i, j int, x, y float64) {
		at := placed{point: point{across.at(x), up.at(y)}, series: i}
		if j < len(series[i].Labels) {
			at.label = shorten(series[i].Labels[j], smallSize, false, 0.4*width)
		}
		if low, high, ok := series[i].interval(j); ok && high > low {
			at.low, at.high, at.interval = up.at(low), up.at(high), true
		}
		all = append(all, at)
	})
	var lines [][]point
	if joined {
		lines = make([][]point, len(series))
		for _, q := range all {
			lines[q.series] = append(lines[q.series], q.point)
		}
		for i, l := range lines {
			if len(l) > 1 {
				p.line(l, 1.5, of(i), i > len(palette))
			}
		}
	}
	for _, q := range all {
		if q.interval {
			p.line([]point{{q.x, q.low}, {q.x, q.high}}, 1, muted, false)
		}
	}
	for _, q := range all {
		marker(p, q.x, q.y, q.series)
	}
	label(p, all, lines, left+2, up.to-8, width, up.from)
	return up.from + 36
}

// each calls f with all points that can be drawn.
func each(series []Series, f func(i, j int, x, y float64)) {
	for i, s := range series {
		for j := range min(len(s.X), len(s.Y)) {
			if finite(s.X[j]) && finite(s.Y[j]) {
				f(i, j, s.X[j], s.Y[j])
			}
		}
	}
}

func xAxisOfPoints(p pen, a, up axis, width float64, label string) {
	last := math.Inf(-1)
	p.line([]point{{a.from - 6, up.from}, {width, up.from}}, 0.75, muted, false)
	for _, v := range a.ticks(ticksOf(a.to - a.from)) {
		x, t := a.at(v), tickText(v)
		half := widthOf(t, smallSize, false) / 2
		p.line([]point{{x, up.from}, {x, up.from + 4}}, 0.75, muted, false)
		if x = min(x, width-half); x-half > last {
			p.text(x, up.from+15, t, smallSize, false, middle, muted)
			last = x + half + 4
		}
	}
	p.text(a.from-6, up.from+30, shorten(label, smallSize, false, width-a.from), smallSize, false, start, muted)
}

// marker of a series: its shape tells it apart where colours do not.
func marker(p pen, x, y float64, i int) {
	const r = 3.6
	switch i % 4 {
	case 0:
		p.dot(x, y, r, of(i))
	case 1:
		p.area(box(x-r+0.3, y-r+0.3, x+r-0.3, y+r-0.3), of(i))
	case 2:
		p.area([]point{{x, y - r - 0.8}, {x + r + 0.6, y + r - 0.4}, {x - r - 0.6, y + r - 0.4}}, of(i))
	case 3:
		p.area([]point{{x, y - r - 1}, {x + r + 1, y}, {x, y + r + 1}, {x - r - 1, y}}, of(i))
	}
}

// area taken by something.
type rectangle struct{ x0, y0, x1, y1 float64 }

// common is the area of two rectangles together.
func (r rectangle) common(o rectangle) float64 {
	w, h := min(r.x1, o.x1)-max(r.x0, o.x0), min(r.y1, o.y1)-max(r.y0, o.y0)
	if w <= 0 || h <= 0 {
		return 0
	}
	return w * h
}

// label writes labels beside points where they cover nothing, if there is such a
// place, and draws a line to those that are not near.
func label(p pen, all []placed, lines [][]point, x0, y0, x1, y1 float64) {
	const r, height = 5.0, smallSize
	var taken []rectangle
	for _, q := range all {
		taken = append(taken, rectangle{q.x - r, q.y - r, q.x + r, q.y + r})
		if q.interval {
			taken = append(taken, rectangle{q.x - 1, q.high, q.x + 1, q.low})
		}
	}
	for _, l := range lines {
		for i := 1; i < len(l); i++ {
			n := math.Ceil(math.Hypot(l[i].x-l[i-1].x, l[i].y-l[i-1].y) / 3)
			for k := range int(n) {
				t := float64(k) / n
				x, y := l[i-1].x+t*(l[i].x-l[i-1].x), l[i-1].y+t*(l[i].y-l[i-1].y)
				taken = append(taken, rectangle{x - 1.5, y - 1.5, x + 1.5, y + 1.5})
			}
		}
	}
	order := make([]int, len(all))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return int(all[a].x - all[b].x) })
	for _, i := range order {
		q := all[i]
		if q.label == "" {
			continue
		}
		w := widthOf(q.label, smallSize, false)
		best, least, far := rectangle{}, math.Inf(1), false
		for ring := range 6 {
			d := 7 + 9*float64(ring)
			for _, way := range [][2]float64{{1, 0}, {-1, 0}, {0, -1}, {0, 1}, {0.8, -0.8}, {0.8, 0.8}, {-0.8, -0.8}, {-0.8, 0.8}} {
				cx, cy := q.x+way[0]*d, q.y+way[1]*d
				at := rectangle{cx, cy - height/2, cx + w, cy + height/2}
				switch {
				case way[0] < 0:
					at.x0, at.x1 = cx-w, cx
				case way[0] == 0:
					at.x0, at.x1 = cx-w/2, cx+w/2
				}
				cost := 2 * float64(ring)
				for _, t := range taken {
					cost += 10 * at.common(t)
				}
				out := w*height - at.common(rectangle{x0, y0, x1, y1})
				if cost += 50 * out; cost < least {
					best, least, far = at, cost, ring > 0
				}
			}
		}
		if far {
			near := point{max(best.x0, min(q.x, best.x1)), max(best.y0, min(q.y, best.y1))}
			if d := math.Hypot(near.x-q.x, near.y-q.y); d > 9 {
				p.line([]point{{q.x + (near.x-q.x)*5/d, q.y + (near.y-q.y)*5/d}, near}, 0.6, muted, false)
			}
		}
		p.text(best.x0, best.y1-1.5, q.label, smallSize, false, start, ink)
		taken = append(taken, best)
	}
}
