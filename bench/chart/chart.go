package chart

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
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
	return s.Low[i], s.High[i], true
}

// value of the i-th bar; ok is false where there is none.
func (s *Series) value(i int) (float64, bool) {
	if i >= len(s.Y) || !finite(s.Y[i]) {
		return 0, false
	}
	return s.Y[i], true
}

// Figure is a chart that can be drawn at any width.
type Figure struct {
	Title string
	// Caption is what a page says below the figure.
	Caption string

	// draw draws below y = top and returns where it ended.
	draw func(p pen, width, top float64) float64
}

// Widths of figures, in points: of files, and of a telephone's screen.
const (
	Wide   = 560
	Narrow = 340
	margin = 14
)

// SVG writes a file.
func (f *Figure) SVG(w io.Writer, width float64) error {
	p := &svgPen{}
	height := f.whole(p, width)
	_, err := fmt.Fprintf(w, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%s\" height=\"%s\" viewBox=\"0 0 %[1]s %[2]s\" color=\"%[3]s\" font-family=\"%[4]s\">\n"+
		"<title>%[5]s</title>\n<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n%[6]s</svg>\n",
		number(width), number(height), inkHex, family, escape(f.Title), p.b.String())
	return err
}

// PNG writes a file of two pixels a point.
func (f *Figure) PNG(w io.Writer, width float64) error {
	p := newPNGPen(width, f.whole(nowhere{}, width))
	f.whole(p, width)
	return p.encode(w)
}

// Inline is an svg element for a page, as wide as it is drawn if there is room for
// it. It has no title, and the colour of the text around it. All text is escaped.
func (f *Figure) Inline(width float64) string {
	p := &svgPen{}
	height := f.draw(p, width, 2) + 2
	return fmt.Sprintf("<svg role=\"img\" aria-label=\"%s\" viewBox=\"0 0 %s %s\" width=\"%[2]s\" height=\"%[3]s\" font-family=\"%[4]s\">\n%[5]s</svg>",
		escape(f.Title), number(width), number(height), family, p.b.String())
}

// Save writes a file, as SVG or PNG by its extension.
func (f *Figure) Save(file string) error {
	write := f.SVG
	switch filepath.Ext(file) {
	case ".svg":
	case ".png":
		write = f.PNG
	default:
		return fmt.Errorf("%s: charts are .svg or .png", file)
	}
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	b := bufio.NewWriter(out)
	if err := errors.Join(write(b, Wide), b.Flush(), out.Close()); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}

// whole draws title and chart, and returns the height.
func (f *Figure) whole(p pen, width float64) float64 {
	in := shifted{p, margin}
	top := float64(margin)
	if f.Title != "" {
		for _, line := range wrap(f.Title, titleSize, true, width-2*margin) {
			in.text(0, top+titleSize, line, titleSize, true, start, ink)
			top += titleSize + 5
		}
		top += 7
	}
	return f.draw(in, width-2*margin, top) + margin
}

// Lines draws series as lines with points.
func Lines(file, title, x, y string, series ...Series) error {
	return Curves(title, x, y, series...).Save(file)
}

// Bars draws groups of bars: Y of each series has a value for each name.
func Bars(file, title, y string, names []string, series ...Series) error {
	return Columns(title, y, names, series...).Save(file)
}
