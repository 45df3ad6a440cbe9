package chart

import (
	"math"
	"strconv"
	"strings"
)

// axis maps values to places between from and to.
type axis struct {
	low, high float64
	log       bool
	from, to  float64
}

func (a axis) at(v float64) float64 {
	if a.log {
		return a.from + (a.to-a.from)*math.Log(v/a.low)/math.Log(a.high/a.low)
	}
	return a.from + (a.to-a.from)*(v-a.low)/(a.high-a.low)
}

// linear is an axis from zero, or from the lowest value if that is below or if zero
// is far away, with room for the highest.
func linear(values []float64, about int) axis {
	low, high := 0.0, 0.0
	if len(values) > 0 {
		low, high = values[0], values[0]
	}
	for _, v := range values {
		low, high = min(low, v), max(high, v)
	}
	far := low > 0 && high-low < high/2
	if !far {
		low, high = min(low, 0), max(high, 0)
	}
	switch {
	case high == 0 && low == 0:
		high = 1
	case high == low:
		low, high = low-math.Abs(low)/10, high+math.Abs(high)/10
	}
	s := step(high-low, about)
	return axis{low: s * math.Floor(low/s+1e-9), high: s * math.Ceil(high/s-1e-9)}
}

// step is the distance of about so many ticks: 1, 2 or 5 times a power of ten.
func step(span float64, about int) float64 {
	s := math.Pow(10, math.Floor(math.Log10(span/float64(about))))
	for _, m := range []float64{1, 2, 5, 10} {
		if span/(s*m) <= float64(about)+1e-9 {
			return s * m
		}
	}
	return s * 10
}

// logarithmic is an axis of whole halves of a power of ten.
func logarithmic(low, high float64) axis {
	round := func(v float64, up bool) float64 {
		p := math.Pow(10, math.Floor(math.Log10(v)+1e-9))
		best := p
		for _, m := range []float64{1, 2, 5, 10} {
			if up && m*p >= v*(1-1e-9) {
				return m * p
			}
			if !up && m*p <= v*(1+1e-9) {
				best = m * p
			}
		}
		return best
	}
	a := axis{low: round(low, false), high: round(high, true), log: true}
	if a.high <= a.low {
		a.high = a.low * 10
	}
	return a
}

// ticks are the values to be labelled.
func (a axis) ticks(about int) []float64 {
	var t []float64
	if a.log {
		decades := math.Log10(a.high / a.low)
		for p := math.Pow(10, math.Floor(math.Log10(a.low)+1e-9)); p <= a.high*(1+1e-9); p *= 10 {
			for _, m := range []float64{1, 2, 5} {
				if v := m * p; v >= a.low*(1-1e-9) && v <= a.high*(1+1e-9) && (m == 1 || 3*decades <= float64(about)+1) {
					t = append(t, v)
				}
			}
		}
		return t
	}
	s := step(a.high-a.low, about)
	for i := int(math.Ceil(a.low/s - 1e-9)); float64(i)*s <= a.high+s*1e-9; i++ {
		t = append(t, float64(i)*s)
	}
	return t
}

// tickText writes a tick exactly, rounding errors apart.
func tickText(v float64) string {
	return thousands(strconv.FormatFloat(roundTo(v, 10), 'f', -1, 64))
}

// Number writes a value with three digits, and thousands apart: 0.0123, 12.3, 12,300.
func Number(v float64) string {
	v = roundTo(v, 3)
	digits := 0
	if v != 0 && finite(v) {
		digits = max(0, 2-int(math.Floor(math.Log10(math.Abs(v))+1e-9)))
	}
	return thousands(strconv.FormatFloat(v, 'f', digits, 64))
}

func roundTo(v float64, digits int) float64 {
	r, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', digits, 64), 64)
	if err != nil {
		return v
	}
	return r
}

// thousands sets commas in the whole part.
func thousands(s string) string {
	whole, part, point := strings.Cut(s, ".")
	first := 0
	if strings.HasPrefix(whole, "-") {
		first = 1
	}
	for i := len(whole) - 3; i > first; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if point {
		return whole + "." + part
	}
	return whole
}

// legend draws the names of series and returns where it ended.
func legend(p pen, width, top float64, series []Series, mark func(i int, x, y float64)) float64 {
	if len(series) < 2 {
		return top
	}
	const key, line = 15.0, 17.0
	x, y := 0.0, top
	for i, s := range series {
		name := shorten(s.Name, textSize, false, width-key)
		w := key + widthOf(name, textSize, false)
		if x > 0 && x+w > width {
			x, y = 0, y+line
		}
		mark(i, x+5, y+7)
		p.text(x+key, y+11, name, textSize, false, start, ink)
		x += w + 16
	}
	return y + line + 5
}

func box(x0, y0, x1, y1 float64) []point {
	return []point{{x0, y0}, {x1, y0}, {x1, y1}, {x0, y1}}
}

// swatch is the mark of a bar in a legend.
func swatch(p pen) func(i int, x, y float64) {
	return func(i int, x, y float64) { p.area(box(x-5, y-5, x+5, y+5), of(i)) }
}
