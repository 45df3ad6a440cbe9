package chart

import (
	"fmt"
	"image/color"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	xfont "golang.org/x/image/font"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

const (
	titleSize = 13
	textSize  = 11
	smallSize = 10
	bold      = xfont.WeightBold

	axisHeight = 34 // of a horizontal axis with its label
)

// rule is a line of the grid.
var rule = draw.LineStyle{Color: grid, Width: 0.75}

// upright is how high a chart of that width is whose values go up.
func upright(width vg.Length) vg.Length { return max(170, min(250, 0.46*width)) + axisHeight }

// ticksOn is how many ticks have room on a horizontal axis.
func ticksOn(length vg.Length) int { return max(2, min(6, int(length/55))) }

// Colours apart from those of series. A page has its own in their place.
var (
	ink   = rgb(0x1f2328) // text
	muted = rgb(0x6b727a) // text of axes
	grid  = rgb(0xdbdcdd)
)

// palette has colours that are told apart on paper and by the colour-blind (Okabe and
// Ito), on a light ground and on a dark one.
var palette = []color.NRGBA{rgb(0x0072b2), rgb(0xe69f00), rgb(0x009e73), rgb(0xd55e00), rgb(0xcc79a7), rgb(0x56b4e9), rgb(0x808080)}

// of is the colour of the i-th series.
func of(i int) color.NRGBA { return palette[i%len(palette)] }

// on is the colour of text on the i-th series.
func on(i int) color.NRGBA {
	if c := of(i); c == palette[0] || c == palette[3] {
		return rgb(0xffffff)
	}
	return rgb(0x111111)
}

func rgb(v uint32) color.NRGBA {
	return color.NRGBA{R: uint8(v >> 16), G: uint8(v >> 8), B: uint8(v), A: 255}
}

// hex is a colour as SVG files have it.
func hex(c color.NRGBA) string { return fmt.Sprintf("#%02X%02X%02X", c.R, c.G, c.B) }

func textStyle(size vg.Length, c color.Color) draw.TextStyle {
	return draw.TextStyle{Color: c, Font: font.From(font.Font{Typeface: "Liberation", Variant: "Sans"}, size), Handler: plot.DefaultTextHandler}
}

// newPlot is a plot in our style, without data.
func newPlot() *plot.Plot {
	p := plot.New()
	p.BackgroundColor = nil
	for _, a := range []*plot.Axis{&p.X, &p.Y} {
		restyle := func(s *draw.TextStyle, c color.Color) {
			n := textStyle(smallSize, c)
			n.XAlign, n.YAlign = s.XAlign, s.YAlign
			*s = n
		}
		restyle(&a.Label.TextStyle, muted)
		restyle(&a.Tick.Label, muted)
		a.Label.Padding = 4
		a.Color, a.Width = muted, 0.75
		a.Tick.LineStyle = a.LineStyle
		a.Tick.Length = 4
		a.Padding = 0
	}
	return p
}

// named makes an axis one of names, at 0, 1, 2, without a line.
func named(a *plot.Axis, names []string, width vg.Length) {
	ticks := make(plot.ConstantTicks, len(names))
	a.Tick.Label.Color = ink
	for i, n := range names {
		ticks[i] = plot.Tick{Value: float64(i), Label: shorten(a.Tick.Label, n, width)}
	}
	a.Tick.Marker, a.Tick.Length, a.Width = ticks, 0, 0
	a.Min, a.Max, a.Padding = -0.5, float64(max(1, len(names)))-0.5, 4
}

// fit rounds the range of an axis to ticks, whose labels have room on its length.
func fit(a *plot.Axis, length vg.Length, about int, ticks func(low, high float64, about int) []float64) {
	for ; ; about-- {
		values := ticks(a.Min, a.Max, about)
		marks := make(plot.ConstantTicks, len(values))
		room := vg.Length(0)
		for i, v := range values {
			marks[i] = plot.Tick{Value: v, Label: tickText(v)}
			room += a.Tick.Label.Width(marks[i].Label) + 8
		}
		if a.Tick.Marker = marks; about <= 2 || room <= length {
			a.Min, a.Max = slices.Min(values), slices.Max(values)
			return
		}
	}
}

// linear is about so many ticks, 1, 2 or 5 times a power of ten apart, from below the
// lowest value to above the highest.
func linear(low, high float64, about int) []float64 {
	span := (high - low) / float64(about)
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

// logarithmic is ticks from below the lowest value to above the highest: 1, 2 and 5
// times powers of ten, or only some powers where there are many.
func logarithmic(low, high float64, about int) []float64 {
	decades := math.Log10(high / low)
	mantissas, stride := []float64{1, 2, 5}, 1.0
	if 3*decades > float64(about)+1 {
		mantissas, stride = mantissas[:1], math.Ceil(decades/float64(about))
	}
	var ticks []float64
	for e := math.Floor(math.Log10(low) + 1e-9); ; e += stride {
		for _, m := range mantissas {
			v := m * math.Pow(10, e)
			if v <= low*(1+1e-9) {
				ticks = ticks[:0] // the ones before are not needed
			}
			if ticks = append(ticks, v); v >= high*(1-1e-9) && len(ticks) > 1 {
				return ticks
			}
		}
	}
}

// tickText writes a tick exactly, rounding errors apart.
func tickText(v float64) string {
	v = roundTo(v, 10)
	if abs := math.Abs(v); abs != 0 && (abs >= 1e7 || abs < 1e-5) {
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
	return thousands(strconv.FormatFloat(v, 'f', -1, 64))
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

// Clean makes a text of what may be a file's name: no control characters, no marks
// that turn the direction of writing, nothing that is not UTF-8.
func Clean(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case !unicode.IsPrint(r) && r != '\u00a0':
			return utf8.RuneError
		}
		return r
	}, s)
}

// shorten cuts a text, cleaned, to a width.
func shorten(style draw.TextStyle, s string, width vg.Length) string {
	runes := []rune(Clean(s))
	cut := string(runes)
	for len(runes) > 1 && style.Width(cut) > width {
		runes = runes[:len(runes)-1]
		cut = string(runes) + "…"
	}
	return cut
}

// wrap breaks a text into lines.
func wrap(style draw.TextStyle, s string, width vg.Length) string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(s) {
		longer := strings.TrimSpace(line + " " + word)
		if line != "" && style.Width(longer) > width {
			lines = append(lines, line)
			longer = word
		}
		line = shorten(style, longer, width)
	}
	return strings.Join(append(lines, line), "\n")
}
