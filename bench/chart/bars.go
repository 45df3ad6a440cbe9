package chart

import "slices"

// spread are all values that an axis of bars has to have room for.
func spread(series []Series) []float64 {
	values := []float64{0}
	for i := range series {
		s := &series[i]
		for j := range s.Y {
			if v, ok := s.value(j); ok {
				values = append(values, v)
				if low, high, ok := s.interval(j); ok {
					values = append(values, low, high)
				}
			}
		}
	}
	return values
}

// nameWidth is the room for the names of rows.
func nameWidth(names []string, width float64) float64 {
	w := 0.0
	for _, n := range names {
		w = max(w, widthOf(n, textSize, false))
	}
	return min(w, 0.36*width)
}

// xAxis draws the grid and the ticks of an axis of values, and its label.
func xAxis(p pen, a axis, top, bottom, width float64, label string) float64 {
	about := ticksOf(a.to - a.from)
	last := -1e9
	for _, v := range a.ticks(about) {
		x := a.at(v)
		c := grid
		if v == 0 {
			c = muted
		}
		p.line([]point{{x, top}, {x, bottom}}, 0.75, c, false)
		t := tickText(v)
		half := widthOf(t, smallSize, false) / 2
		if x-half > last {
			p.text(min(x, width-half), bottom+14, t, smallSize, false, middle, muted)
			last = x + half + 4
		}
	}
	p.text(a.from, bottom+30, shorten(label, smallSize, false, a.to-a.from), smallSize, false, start, muted)
	return bottom + 36
}

// ticksOf is how many ticks have room.
func ticksOf(length float64) int { return max(2, min(6, int(length/55))) }

// HorizontalBars is a group of bars a name, one for each series, with intervals where
// they are known. x says what their length is.
func HorizontalBars(title, x string, names []string, series ...Series) *Figure {
	return &Figure{Title: title, draw: func(p pen, width, top float64) float64 {
		top = legend(p, width, top, series, swatch(p))
		thick := 9.0
		if len(series) == 1 {
			thick = 13
		}
		const gap = 1.5
		group := max(float64(len(series))*(thick+gap), 16) + 9
		values := spread(series)
		a := linear(values, ticksOf(width/2))
		left, right := nameWidth(names, width)+8, 0.0
		for _, v := range values {
			right = max(right, widthOf(Number(v), smallSize, false))
		}
		a.from, a.to = left, width-right-6
		bottom := top + group*float64(len(names))
		end0 := xAxis(p, a, top, bottom, width, x)
		for i, name := range names {
			centre := top + group*(float64(i)+0.5)
			p.text(left-8, centre+4, shorten(name, textSize, false, left-8), textSize, false, end, ink)
			y := centre - float64(len(series))*(thick+gap)/2 + gap/2
			for j := range series {
				if v, ok := series[j].value(i); ok {
					p.area(box(a.at(0), y, a.at(v), y+thick), of(j))
					tip := max(a.at(0), a.at(v))
					if low, high, ok := series[j].interval(i); ok && high > low {
						whisker(p, a.at(low), a.at(high), y+thick/2)
						tip = max(tip, a.at(high))
					}
					p.text(tip+4, y+thick/2+3.5, Number(v), smallSize, false, start, muted)
				}
				y += thick + gap
			}
		}
		return end0
	}}
}

// whisker is an interval at the end of a bar.
func whisker(p pen, x0, x1, y float64) {
	p.line([]point{{x0, y}, {x1, y}}, 1.2, ink, false)
	for _, x := range []float64{x0, x1} {
		p.line([]point{{x, y - 2.5}, {x, y + 2.5}}, 1.2, ink, false)
	}
}

// StackedBars is a bar a name, made up of the values of all series. x says what their
// length is.
func StackedBars(title, x string, names []string, series ...Series) *Figure {
	return &Figure{Title: title, draw: func(p pen, width, top float64) float64 {
		top = legend(p, width, top, series, swatch(p))
		const thick, group = 15.0, 23.0
		totals := make([]float64, len(names))
		for i := range names {
			for j := range series {
				v, _ := series[j].value(i)
				totals[i] += max(0, v)
			}
		}
		a := linear(append([]float64{0}, totals...), ticksOf(width/2))
		if m := slices.Max(append([]float64{0}, totals...)); m > 99.5 && m < 100.5 {
			a.high = 100 // shares
		}
		left := nameWidth(names, width) + 8
		a.from, a.to = left, width-10
		bottom := top + group*float64(len(names))
		end0 := xAxis(p, a, top, bottom, width, x)
		for i, name := range names {
			centre := top + group*(float64(i)+0.5)
			p.text(left-8, centre+4, shorten(name, textSize, false, left-8), textSize, false, end, ink)
			sum := 0.0
			for j := range series {
				v, ok := series[j].value(i)
				if !ok || v <= 0 {
					continue
				}
				x0, x1 := a.at(sum), a.at(sum+v)
				p.area(box(x0, centre-thick/2, x1, centre+thick/2), of(j))
				if t := Number(v); widthOf(t, smallSize, false)+6 < x1-x0 {
					p.text((x0+x1)/2, centre+3.5, t, smallSize, false, middle, on(of(j)))
				}
				sum += v
			}
		}
		return end0
	}}
}

// Columns is a group of upright bars a name, one for each series. y says what their
// height is.
func Columns(title, y string, names []string, series ...Series) *Figure {
	return &Figure{Title: title, draw: func(p pen, width, top float64) float64 {
		top = legend(p, width, top, series, swatch(p))
		a := linear(spread(series), 5)
		plot := yAxis(p, &a, width, top, y)
		each := (width - plot) / float64(max(1, len(names)))
		bar := min(22, each*0.8/float64(max(1, len(series))))
		for i, name := range names {
			centre := plot + each*(float64(i)+0.5)
			for j := range series {
				v, ok := series[j].value(i)
				if !ok {
					continue
				}
				x := centre + bar*(float64(j)-float64(len(series))/2)
				p.area(box(x+0.5, a.at(v), x+bar-0.5, a.at(0)), of(j))
				if low, high, ok := series[j].interval(i); ok && high > low {
					p.line([]point{{x + bar/2, a.at(low)}, {x + bar/2, a.at(high)}}, 1.2, ink, false)
				}
			}
			p.text(centre, a.from+15, shorten(name, smallSize, false, each-4), smallSize, false, middle, ink)
		}
		return a.from + 22
	}}
}

// yAxis places an axis of values below y = top, draws its grid, ticks and label, and
// returns where the plot begins.
func yAxis(p pen, a *axis, width, top float64, label string) float64 {
	p.text(0, top+9, shorten(label, smallSize, false, width), smallSize, false, start, muted)
	top += 22
	a.to, a.from = top, top+max(170, min(250, 0.46*width))
	ticks := a.ticks(5)
	left := 0.0
	for _, v := range ticks {
		left = max(left, widthOf(tickText(v), smallSize, false))
	}
	left += 7
	for _, v := range ticks {
		c := grid
		if v == a.low {
			c = muted
		}
		p.line([]point{{left, a.at(v)}, {width, a.at(v)}}, 0.75, c, false)
		p.text(left-7, a.at(v)+3.5, tickText(v), smallSize, false, end, muted)
	}
	return left
}
