package chart

import (
	"bytes"
	"fmt"
	"html"
	"image/color"
	"math"
	"os"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Series are values of one kind.
type Series struct {
	Name string
	// X and Y of points, in the order of X; of bars only Y, one for each name. What is
	// not finite is left out.
	X, Y []float64
	// Low and High are the intervals of Y, or empty.
	Low, High []float64
	// Labels stand beside points, or are empty.
	Labels []string
}

// interval of the i-th value; ok is false where there is none.
func (s *Series) interval(i int) (low, high float64, ok bool) {
	if i >= len(s.Low) || i >= len(s.High) || !finite(s.Low[i]) || !finite(s.High[i]) {
		return 0, 0, false
	}
	return s.Low[i], s.High[i], s.High[i] > s.Low[i]
}

// value of the i-th bar; ok is false where there is none.
func (s *Series) value(i int) (float64, bool) {
	if i >= len(s.Y) || !finite(s.Y[i]) {
		return 0, false
	}
	return s.Y[i], true
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// Figure is a chart that can be drawn at any width.
type Figure struct {
	Title string
	// Caption is what a page says below the figure.
	Caption string

	layout func(width vg.Length) *layout
}

// layout is a figure for one width, without its title.
type layout struct {
	plot   *plot.Plot
	legend []key
	height vg.Length // of the plot with its axes, without the legend
	right  vg.Length // room on the right of the plot
}

// key is what the legend says of a series.
type key struct {
	name string
	mark []plot.Thumbnailer
}

// Widths of figures, in points: of files and pages, and of a telephone's screen.
const (
	Wide   = 560
	Narrow = 340
	margin = 14
)

// Inline is an svg element for a page, as wide as it is drawn if there is room for
// it. It has no title, and the colour of the text around it. All text is escaped.
func (f *Figure) Inline(width float64) string {
	return strings.NewReplacer(
		hex(ink), "currentColor",
		"fill:"+hex(muted), "fill:currentColor;fill-opacity:0.66", "stroke:"+hex(muted), "stroke:currentColor;stroke-opacity:0.66",
		"stroke:"+hex(grid), "stroke:currentColor;stroke-opacity:0.16",
	).Replace(f.svg(width, false))
}

func (f *Figure) svg(width float64, whole bool) string {
	var b bytes.Buffer
	_, _ = f.draw(width, whole).WriteTo(&b)      // memory takes it
	_, svg, _ := strings.Cut(b.String(), "<svg") // after what only a file of its own begins with
	return fmt.Sprintf("<svg role=\"img\" aria-label=\"%s\"", html.EscapeString(Clean(f.Title))) +
		// Points are the page's pixels. Where the font is missing, one as wide takes its place.
		strings.NewReplacer("pt\"", "\"", "font-family:Liberation Sans", "font-family:'Liberation Sans',Arial,Helvetica,sans-serif").Replace(svg)
}

// Save writes an SVG file.
func (f *Figure) Save(file string) error {
	return os.WriteFile(file, []byte(f.svg(Wide, true)), 0o644)
}

// draw draws on a canvas that is as high as it has to be: with title and ground if
// it is whole, otherwise the chart alone.
func (f *Figure) draw(width float64, whole bool) *vgsvg.Canvas {
	edge, title := vg.Length(0), ""
	titles := textStyle(titleSize, ink)
	titles.Font.Weight, titles.YAlign = bold, draw.YTop
	if whole {
		edge = margin
		title = wrap(titles, f.Title, vg.Length(width)-2*margin)
	}
	l := f.layout(vg.Length(width) - 2*edge)
	top := edge
	if title != "" {
		top += titles.Height(title) + 10
	}
	rows := l.legendRows(vg.Length(width) - 2*edge)
	height := top + legendLine*vg.Length(len(rows)) + l.height + edge
	sized := vgsvg.New(vg.Length(width), height)
	c := draw.New(sized)
	if whole {
		c.SetColor(color.White)
		c.Fill(c.Path())
	}
	c = draw.Crop(c, edge, -edge, edge, 0)
	c.FillText(titles, vg.Point{X: c.Min.X, Y: c.Max.Y - edge}, title)
	c.Max.Y -= top
	for _, row := range rows {
		row.draw(c)
		c.Max.Y -= legendLine
	}
	l.plot.Draw(draw.Crop(c, 0, -l.right, 0, 0))
	return sized
}

const (
	legendLine = 19
	legendMark = 11 // is as wide as this
	legendGap  = 16
)

type legendRow []key

// legendRows breaks the legend into rows. One series needs none.
func (l *layout) legendRows(width vg.Length) []legendRow {
	if len(l.legend) < 2 {
		return nil
	}
	var rows []legendRow
	left := vg.Length(0)
	for _, k := range l.legend {
		k.name = shorten(textStyle(textSize, ink), k.name, width-legendMark-5)
		if left < k.width() || len(rows) == 0 {
			rows, left = append(rows, nil), width
		}
		rows[len(rows)-1] = append(rows[len(rows)-1], k)
		left -= k.width() + legendGap
	}
	return rows
}

func (k key) width() vg.Length { return legendMark + 5 + textStyle(textSize, ink).Width(k.name) }

func (r legendRow) draw(c draw.Canvas) {
	style := textStyle(textSize, ink)
	for _, k := range r {
		box := draw.Canvas{Canvas: c.Canvas, Rectangle: vg.Rectangle{Min: vg.Point{X: c.Min.X, Y: c.Max.Y - legendMark}, Max: vg.Point{X: c.Min.X + legendMark, Y: c.Max.Y}}}
		for _, m := range k.mark {
			m.Thumbnail(&box)
		}
		c.FillText(style, vg.Point{X: box.Max.X + 5, Y: box.Min.Y + 2}, k.name)
		c.Min.X += k.width() + legendGap
	}
}

// plotter draws what the library has no plotter for.
type plotter func(c draw.Canvas, p *plot.Plot)

func (f plotter) Plot(c draw.Canvas, p *plot.Plot) { f(c, p) }
