// Package chart draws what was measured, as SVG or PNG by the extension of the file.
package chart

import (
	"fmt"
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
)

// Series are points of one kind, in the order of X.
type Series struct {
	Name string
	X, Y []float64
}

// colours that are told apart on paper and by the colour-blind (Okabe and Ito).
var colours = []color.RGBA{
	{0, 114, 178, 255}, {230, 159, 0, 255}, {0, 158, 115, 255}, {213, 94, 0, 255},
	{204, 121, 167, 255}, {86, 180, 233, 255}, {0, 0, 0, 255},
}

const (
	width  = 16 * vg.Centimeter
	height = 10 * vg.Centimeter
)

func newPlot(title, x, y string) *plot.Plot {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, x, y
	p.Y.Min = 0
	p.Legend.Top, p.Legend.Left = true, true
	p.Add(plotter.NewGrid())
	return p
}

// Lines draws series as lines with points.
func Lines(file, title, x, y string, series ...Series) error {
	p := newPlot(title, x, y)
	for i, s := range series {
		points := make(plotter.XYs, len(s.X))
		for j := range points {
			points[j].X, points[j].Y = s.X[j], s.Y[j]
		}
		line, dots, err := plotter.NewLinePoints(points)
		if err != nil {
			return fmt.Errorf("%s: %s: %w", title, s.Name, err)
		}
		line.Color, dots.Color = colours[i%len(colours)], colours[i%len(colours)]
		line.Width = vg.Points(1.5)
		if i >= len(colours) {
			line.Dashes = []vg.Length{vg.Points(4), vg.Points(2)}
		}
		p.Add(line, dots)
		p.Legend.Add(s.Name, line, dots)
	}
	p.Y.Min = 0
	return p.Save(width, height, file)
}

// Bars draws groups of bars: Y of each series has a value for each name.
func Bars(file, title, y string, names []string, series ...Series) error {
	p := newPlot(title, "", y)
	bar := vg.Points(14)
	for i, s := range series {
		b, err := plotter.NewBarChart(plotter.Values(s.Y), bar)
		if err != nil {
			return fmt.Errorf("%s: %s: %w", title, s.Name, err)
		}
		b.Color = colours[i%len(colours)]
		b.LineStyle.Width = 0
		b.Offset = bar * vg.Length(2*i-len(series)+1) / 2
		p.Add(b)
		p.Legend.Add(s.Name, b)
	}
	p.NominalX(names...)
	p.Y.Max *= 1.25 // room for the legend
	return p.Save(width, height, file)
}
