// Package chart draws lines and columns as plain SVG files.
package chart

import (
	"encoding/xml"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/pipefs/pipefs/internal/human"
)

// Series are values of one kind. A value that is not finite is left out.
type Series struct {
	Name      string
	X, Y      []float64 // of points, in the order of X; columns have Y only
	Low, High []float64 // the intervals of Y, or empty
}

// Figure is the text of an SVG file.
type Figure struct{ strings.Builder }

// Save writes the file.
func (f *Figure) Save(file string) error {
	return os.WriteFile(file, []byte(f.String()+"</svg>\n"), 0o644)
}

const (
	width, height         = 560, 340
	left, right, up, down = 64, 20, 64, 48 // around the plot
)

// palette is told apart on paper and by the colour-blind (Okabe and Ito).
var palette = []string{"#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9", "#808080"}

// scale is an axis: values from low to high, pixels from a to b.
type scale struct{ low, high, a, b float64 }

func (s scale) at(v float64) float64 { return s.a + (v-s.low)/(s.high-s.low)*(s.b-s.a) }

// axis begins at zero, unless that is far away, and ends at a tick.
func axis(values []float64, a, b float64) (scale, []float64) {
	low, high := 0.0, 1.0
	if values = slices.DeleteFunc(values, func(v float64) bool { return !finite(v) }); len(values) > 0 {
		if low, high = slices.Min(values), slices.Max(values); low > 0 && high-low >= high/2 || low == high {
			low = min(0, low)
		}
		if low == high {
			high = 1
		}
	}
	ticks := linear(low, high, 5)
	return scale{slices.Min(ticks), slices.Max(ticks), a, b}, ticks
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// text writes a text; style is its attributes.
func (f *Figure) text(x, y float64, style, s string) {
	fmt.Fprintf(f, `<text x="%.1f" y="%.1f" %s>`, x, y, style)
	_ = xml.EscapeText(f, []byte(s)) // a builder takes it
	f.WriteString("</text>\n")
}

// begin draws all but the values: title, legend, and the axis of Y.
func begin(title, x, y string, series []Series) (*Figure, scale) {
	f := &Figure{}
	fmt.Fprintf(f, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %[1]d %[2]d\" font-family=\"Arial,Helvetica,sans-serif\" font-size=\"11\" fill=\"#1f2328\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n", width, height)
	f.text(14, 24, `font-size="13" font-weight="bold"`, title)
	at := 14.0
	for i, s := range series {
		if len(series) > 1 {
			fmt.Fprintf(f, "<rect x=\"%.0f\" y=\"36\" width=\"10\" height=\"10\" fill=\"%s\"/>\n", at, palette[i%len(palette)])
			f.text(at+14, 45, "", s.Name)
			at += 30 + 5.8*float64(len([]rune(s.Name)))
		}
	}
	var values []float64
	for i := range series {
		values = slices.Concat(values, series[i].Y, series[i].Low, series[i].High)
	}
	ys, ticks := axis(values, height-down, up)
	for _, v := range ticks {
		fmt.Fprintf(f, "<line x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%[3]f\" stroke=\"#dbdcdd\"/>\n", left, width-right, ys.at(v))
		f.text(left-6, ys.at(v)+4, `text-anchor="end" fill="#6b727a"`, tickText(v))
	}
	f.text((width+left-right)/2, height-12, `text-anchor="middle" fill="#6b727a"`, x)
	middle := float64(height+up-down) / 2
	f.text(14, middle, fmt.Sprintf(`text-anchor="middle" fill="#6b727a" transform="rotate(-90 14 %.1f)"`, middle), y)
	return f, ys
}

// whisker draws the interval of a value.
func (f *Figure) whisker(s *Series, j int, x float64, ys scale) {
	if j < len(s.Low) && j < len(s.High) && finite(s.Low[j]) && finite(s.High[j]) && s.High[j] > s.Low[j] {
		fmt.Fprintf(f, "<line x1=\"%.1f\" x2=\"%[1]f\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#6b727a\"/>\n", x, ys.at(s.Low[j]), ys.at(s.High[j]))
	}
}

// Columns is a group of upright bars a name, one for each series.
func Columns(title, y string, names []string, series ...Series) *Figure {
	f, ys := begin(title, "", y, series)
	group := (width - left - right) / float64(max(1, len(names)))
	thick := min(22, 0.8*group/float64(max(1, len(series))))
	for j, name := range names {
		middle := left + group*(float64(j)+0.5)
		f.text(middle, height-down+16, `text-anchor="middle"`, name)
		for i := range series {
			s := &series[i]
			if j >= len(s.Y) || !finite(s.Y[j]) {
				continue
			}
			x, top := middle+thick*(float64(i)-float64(len(series))/2), ys.at(s.Y[j])
			fmt.Fprintf(f, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\"/>\n", x, top, thick-1, max(0, ys.at(max(0, ys.low))-top), palette[i%len(palette)])
			f.whisker(s, j, x+thick/2, ys)
		}
	}
	return f
}

// Curves are points joined by lines. Those after the seventh are dashed.
func Curves(title, x, y string, series ...Series) *Figure {
	f, ys := begin(title, x, y, series)
	var values []float64
	for i := range series {
		values = append(values, series[i].X...)
	}
	xs, ticks := axis(values, left, width-right)
	for _, v := range ticks {
		f.text(xs.at(v), height-down+16, `text-anchor="middle" fill="#6b727a"`, tickText(v))
	}
	for i := range series {
		s, color, dashes, line := &series[i], palette[i%len(palette)], "", []string(nil)
		if i >= len(palette) {
			dashes = ` stroke-dasharray="4 2"`
		}
		for j := range min(len(s.X), len(s.Y)) {
			if !finite(s.X[j]) || !finite(s.Y[j]) {
				continue
			}
			px, py := xs.at(s.X[j]), ys.at(s.Y[j])
			f.whisker(s, j, px, ys)
			fmt.Fprintf(f, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"/>\n", px, py, color)
			line = append(line, fmt.Sprintf("%.1f,%.1f", px, py))
		}
		fmt.Fprintf(f, "<polyline points=\"%s\" fill=\"none\" stroke=\"%s\" stroke-width=\"1.5\"%s/>\n", strings.Join(line, " "), color, dashes)
	}
	return f
}

// linear is about so many ticks, 1, 2 or 5 times a power of ten apart, from below the
// lowest value to above the highest.
func linear(low, high float64, about int) []float64 {
	span := (high - low) / float64(max(1, about))
	step := math.Pow(10, math.Floor(math.Log10(span)))
	for _, m := range []float64{2, 2.5, 2} { // 2, 5, 10
		if span > step*(1+1e-9) {
			step *= m
		}
	}
	first := math.Floor(low/step + 1e-9)
	var ticks []float64
	for i := range max(2, int(math.Ceil(high/step-1e-9)-first)+1) {
		ticks = append(ticks, (first+float64(i))*step)
	}
	return ticks
}

// tickText writes a tick exactly, rounding errors apart.
func tickText(v float64) string {
	v, _ = strconv.ParseFloat(strconv.FormatFloat(v, 'g', 10, 64), 64)
	if abs := math.Abs(v); abs != 0 && (abs >= 1e7 || abs < 1e-5) {
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
	if v == math.Trunc(v) {
		return human.Count(int(v))
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}
