package chart

import (
	"image/color"
	"io"

	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
)

// pngPen draws pixels.
type pngPen struct {
	image  *vgimg.Canvas
	canvas draw.Canvas
	height float64
}

func newPNGPen(width, height float64) *pngPen {
	image := vgimg.NewWith(vgimg.UseWH(vg.Length(width), vg.Length(height)), vgimg.UseDPI(144), vgimg.UseBackgroundColor(color.White))
	return &pngPen{image, draw.New(image), height}
}

func (p *pngPen) encode(w io.Writer) error {
	_, err := vgimg.PngCanvas{Canvas: p.image}.WriteTo(w)
	return err
}

// rgb reads "#0072b2".
func rgb(hex string) color.NRGBA {
	v := func(i int) uint8 {
		digit := func(c byte) uint8 {
			if c >= 'a' {
				return c - 'a' + 10
			}
			return c - '0'
		}
		return digit(hex[i])<<4 | digit(hex[i+1])
	}
	return color.NRGBA{v(1), v(3), v(5), 255}
}

func alpha(opacity float64) uint8 { return uint8(255 * opacity) }

func pixel(c colour) color.NRGBA {
	black := rgb(inkHex)
	switch {
	case c == muted:
		black.A = alpha(mutedOf)
	case c == grid:
		black.A = alpha(gridOf)
	case c == paper, c == light:
		return color.NRGBA{255, 255, 255, 255}
	case c >= 0 && int(c) < len(palette):
		return rgb(palette[c])
	}
	return black
}

// at turns the axis: vg's grows upwards.
func (p *pngPen) at(x, y float64) vg.Point {
	return vg.Point{X: vg.Length(x), Y: vg.Length(p.height - y)}
}

func (p *pngPen) all(points []point) []vg.Point {
	v := make([]vg.Point, len(points))
	for i, q := range points {
		v[i] = p.at(q.x, q.y)
	}
	return v
}

func (p *pngPen) line(points []point, width float64, c colour, dashed bool) {
	style := draw.LineStyle{Color: pixel(c), Width: vg.Length(width)}
	if dashed {
		style.Dashes = []vg.Length{4, 2}
	}
	p.canvas.StrokeLines(style, p.all(points))
}

func (p *pngPen) area(points []point, c colour) { p.canvas.FillPolygon(pixel(c), p.all(points)) }

func (p *pngPen) dot(x, y, radius float64, c colour) {
	p.canvas.DrawGlyph(draw.GlyphStyle{Color: pixel(c), Radius: vg.Length(radius), Shape: draw.CircleGlyph{}}, p.at(x, y))
}

func (p *pngPen) text(x, y float64, s string, size float64, bold bool, a anchor, c colour) {
	f := face(size, bold)
	style := text.Style{Color: pixel(c), Font: f.Font, XAlign: -0.5 * text.XAlignment(a), Handler: text.Plain{Fonts: fonts}}
	p.canvas.FillText(style, p.at(x, y), clean(s))
}
