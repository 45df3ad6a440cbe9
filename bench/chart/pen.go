package chart

import (
	"fmt"
	"html"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	xfont "golang.org/x/image/font"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/font/liberation"
)

// point on a drawing; y grows downwards.
type point struct{ x, y float64 }

// pen is what figures are drawn with.
type pen interface {
	// line is one or more lines from point to point.
	line(points []point, width float64, c colour, dashed bool)
	area(points []point, c colour)
	dot(x, y, radius float64, c colour)
	// text stands on the line y.
	text(x, y float64, s string, size float64, bold bool, a anchor, c colour)
}

// colour of the drawing, or of a series.
type colour int

const (
	ink   colour = -1 - iota
	muted        // text of axes
	grid
	paper // the ground, whatever that is
	dark  // text on light colours
	light // text on dark ones
)

type anchor int

const (
	start anchor = iota
	middle
	end
)

// palette has colours that are told apart on paper and by the colour-blind (Okabe and
// Ito), on a light ground and on a dark one. The last is that of the text.
var palette = []string{"#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9"}

// of is the colour of the i-th series.
func of(i int) colour { return colour(i % (len(palette) + 1)) }

// on is the colour of text on a colour.
func on(c colour) colour {
	switch c {
	case 0, 3:
		return light
	case colour(len(palette)):
		return paper
	}
	return dark
}

const (
	inkHex  = "#1f2328"
	mutedOf = 0.66 // of the ink's opacity
	gridOf  = 0.16

	titleSize = 13
	textSize  = 11
	smallSize = 10

	// family has fonts as wide as the one that is measured with.
	family = "'Liberation Sans',Arial,Helvetica,sans-serif"
)

var fonts = font.NewCache(liberation.Collection())

func face(size float64, bold bool) font.Face {
	f := font.Font{Typeface: "Liberation", Variant: "Sans"}
	if bold {
		f.Weight = xfont.WeightBold
	}
	return fonts.Lookup(f, font.Length(size))
}

// widthOf is how wide a text will be.
func widthOf(s string, size float64, bold bool) float64 {
	f := face(size, bold)
	return f.Width(clean(s)).Points()
}

// clean makes a text of what may be a file's name: it has no control characters, no
// marks that turn its direction, and is valid.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) && r != '\u00a0' {
			return utf8.RuneError
		}
		return r
	}, s)
}

func escape(s string) string { return html.EscapeString(clean(s)) }

// shorten cuts a text to a width.
func shorten(s string, size float64, bold bool, width float64) string {
	if widthOf(s, size, bold) <= width {
		return s
	}
	runes := []rune(s)
	for len(runes) > 1 && widthOf(string(runes)+"…", size, bold) > width {
		runes = runes[:len(runes)-1]
	}
	return string(runes) + "…"
}

// wrap breaks a text into lines.
func wrap(s string, size float64, bold bool, width float64) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(s) {
		longer := strings.TrimSpace(line + " " + word)
		if line != "" && widthOf(longer, size, bold) > width {
			lines = append(lines, line)
			longer = word
		}
		line = longer
	}
	if line != "" {
		lines = append(lines, line)
	}
	for i := range lines {
		lines[i] = shorten(lines[i], size, bold, width)
	}
	return lines
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// number is a coordinate.
func number(v float64) string {
	return strconv.FormatFloat(math.Round(v*100)/100, 'f', -1, 64)
}

// svgPen writes SVG elements.
type svgPen struct{ b strings.Builder }

// paint is a colour as the value of fill or stroke.
func paint(c colour) string {
	switch {
	case c == paper:
		return "var(--paper,#fff)"
	case c == dark:
		return "#111"
	case c == light:
		return "#fff"
	case c < 0 || int(c) >= len(palette):
		return "currentColor"
	}
	return palette[c]
}

// faint is the attribute that makes ink lighter, or empty.
func faint(c colour, attribute string) string {
	switch c {
	case muted:
		return fmt.Sprintf(` %s="%g"`, attribute, mutedOf)
	case grid:
		return fmt.Sprintf(` %s="%g"`, attribute, gridOf)
	}
	return ""
}

func (p *svgPen) path(points []point) string {
	var b strings.Builder
	for i, at := range points {
		b.WriteByte("ML"[min(i, 1)])
		b.WriteString(number(at.x) + " " + number(at.y))
	}
	return b.String()
}

func (p *svgPen) line(points []point, width float64, c colour, dashed bool) {
	more := faint(c, "stroke-opacity")
	if dashed {
		more += ` stroke-dasharray="4 2"`
	}
	fmt.Fprintf(&p.b, "<path d=\"%s\" fill=\"none\" stroke=\"%s\" stroke-width=\"%s\"%s/>\n", p.path(points), paint(c), number(width), more)
}

func (p *svgPen) area(points []point, c colour) {
	fmt.Fprintf(&p.b, "<path d=\"%sZ\" fill=\"%s\"%s/>\n", p.path(points), paint(c), faint(c, "fill-opacity"))
}

func (p *svgPen) dot(x, y, radius float64, c colour) {
	fmt.Fprintf(&p.b, "<circle cx=\"%s\" cy=\"%s\" r=\"%s\" fill=\"%s\"/>\n", number(x), number(y), number(radius), paint(c))
}

func (p *svgPen) text(x, y float64, s string, size float64, bold bool, a anchor, c colour) {
	more := faint(c, "fill-opacity")
	if a != start {
		more += ` text-anchor="` + [...]string{middle: "middle", end: "end"}[a] + `"`
	}
	if bold {
		more += ` font-weight="700"`
	}
	fmt.Fprintf(&p.b, "<text x=\"%s\" y=\"%s\" font-size=\"%s\" fill=\"%s\"%s>%s</text>\n", number(x), number(y), number(size), paint(c), more, escape(s))
}

// shifted draws somewhat to the right.
type shifted struct {
	pen
	by float64
}

func (p shifted) moved(points []point) []point {
	m := make([]point, len(points))
	for i, at := range points {
		m[i] = point{at.x + p.by, at.y}
	}
	return m
}

func (p shifted) line(points []point, width float64, c colour, dashed bool) {
	p.pen.line(p.moved(points), width, c, dashed)
}
func (p shifted) area(points []point, c colour) { p.pen.area(p.moved(points), c) }
func (p shifted) dot(x, y, radius float64, c colour) {
	p.pen.dot(x+p.by, y, radius, c)
}
func (p shifted) text(x, y float64, s string, size float64, bold bool, a anchor, c colour) {
	p.pen.text(x+p.by, y, s, size, bold, a, c)
}

// nowhere is a pen without ink, to find out how high a figure is.
type nowhere struct{}

func (nowhere) line([]point, float64, colour, bool)                          {}
func (nowhere) area([]point, colour)                                         {}
func (nowhere) dot(float64, float64, float64, colour)                        {}
func (nowhere) text(float64, float64, string, float64, bool, anchor, colour) {}
