package chart

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"gonum.org/v1/plot/vg"

	"github.com/pipefs/pipefs/internal/testenv"
)

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	s := []Series{
		{Name: "loading", X: []float64{0, 5, 10}, Y: []float64{300, 120, 40}},
		{Name: "decoding", X: []float64{0, 5, 10}, Y: []float64{80, 160, 900}},
	}
	for _, name := range []string{"lines.svg", "bars.svg"} {
		file := filepath.Join(dir, name)
		figure := Curves("Rates", "share", "samples/s", s...)
		if name == "bars.svg" {
			figure = Columns("Rates", "samples/s", []string{"25 MB/s", "50 MB/s", "100 MB/s"}, s...)
		}
		testenv.Must(t, figure.Save(file))
		b, err := os.ReadFile(file)
		testenv.Must(t, err)
		if !bytes.Contains(b, []byte("<svg")) || !bytes.Contains(b, []byte("loading")) {
			t.Errorf("%s: no picture of what was given: %.80q", name, b)
		}
	}
}

// kinds of figures.
func kinds(names []string, s ...Series) map[string]*Figure {
	return map[string]*Figure{
		"horizontal": HorizontalBars("Title", "x", names, s...), "stacked": StackedBars("Title", "x", names, s...),
		"columns": Columns("Title", "y", names, s...), "scatter": Scatter("Title", "x", "y", s...), "curves": Curves("Title", "x", "y", s...),
	}
}

// texts of a figure that is XML, with their places; those outside of it are an error.
func texts(t *testing.T, svg string, width float64) map[string][]vg.Rectangle {
	t.Helper()
	all := map[string][]vg.Rectangle{}
	d := xml.NewDecoder(strings.NewReader(svg))
	turned := 0 // depth of groups that are turned, as the label of the Y axis
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return all
		}
		testenv.Must(t, err)
		if _, end := token.(xml.EndElement); end && turned > 0 {
			turned--
		}
		e, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		a := map[string]string{}
		for _, attr := range e.Attr {
			a[attr.Name.Local] = attr.Value
		}
		if turned > 0 || strings.HasPrefix(a["transform"], "rotate") {
			turned++
		}
		if turned > 0 || e.Name.Local != "text" {
			continue
		}
		var s string
		testenv.Must(t, d.DecodeElement(&s, &e))
		number := func(name string) vg.Length {
			v, err := strconv.ParseFloat(a[name], 64)
			if err != nil || !finite(v) {
				t.Fatalf("%q: %s=%q", s, name, a[name])
			}
			return vg.Length(v)
		}
		style := textStyle(smallSize, ink)
		_, size, _ := strings.Cut(a["style"], "font-size:")
		size, _, _ = strings.Cut(size, "px")
		if _, err := fmt.Sscan(size, &style.Font.Size); err != nil {
			t.Fatalf("%q has no size: %v", s, a)
		}
		if strings.Contains(a["style"], "bold") {
			style.Font.Weight = bold
		}
		x, y, w := number("x"), number("y"), style.Width(s)
		if x < -0.5 || float64(x+w) > width+0.5 {
			t.Errorf("%q is from %.1f to %.1f of %.0f", s, x, x+w, width)
		}
		all[s] = append(all[s], vg.Rectangle{Min: vg.Point{X: x, Y: y - 0.7*style.Font.Size}, Max: vg.Point{X: x + w, Y: y}})
	}
}

func TestOdd(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	long := strings.Repeat("a very long name ", 12)
	for what, s := range map[string][]Series{
		"nothing":    nil,
		"empty":      {{}},
		"zeros":      {{Name: "a", X: []float64{0, 0}, Y: []float64{0, 0}}},
		"no numbers": {{Name: "a", X: []float64{nan, 1, inf}, Y: []float64{1, inf, nan}, Low: []float64{nan, -inf, 0}, High: []float64{1, nan, inf}}},
		"below zero": {{Name: "a", X: []float64{-5, 5}, Y: []float64{-100, 30}, Low: []float64{-110, 20}, High: []float64{-90, 40}}},
		"one":        {{Name: "a", X: []float64{7}, Y: []float64{7}, Labels: []string{"seven"}}},
		"tiny, huge": {{Name: "a", X: []float64{1e-9, 1e12}, Y: []float64{1e-7, 1e15}}},
		"ragged":     {{Name: "a", X: []float64{1, 2, 3}, Y: []float64{1}, Labels: []string{"x"}}, {Name: "b", X: []float64{1}, Y: []float64{1, 2, 3, 4, 5}}},
		"long":       {{Name: long, X: []float64{1, 2}, Y: []float64{1, 2}, Labels: []string{long, long}}, {Name: long, X: []float64{1}, Y: []float64{1}}},
	} {
		for kind, f := range kinds([]string{"first", long, "<&\"'\x00\xff\u202e"}, s...) {
			for _, width := range []float64{Wide, Narrow} {
				t.Run(fmt.Sprint(what, "/", kind, "/", width), func(t *testing.T) {
					file := f.svg(width, true)
					texts(t, file, width)
					texts(t, f.Inline(width), width)
					if strings.Contains(file, "NaN") || strings.Contains(file, "Inf") {
						t.Error("drawn at no place")
					}
				})
			}
		}
	}
}

// Labels of points that lie close together are legible.
func TestLabels(t *testing.T) {
	var s Series
	for i := range 8 {
		s.X, s.Y = append(s.X, 100+float64(i%3)), append(s.Y, 500+10*float64(i))
		s.Labels = append(s.Labels, fmt.Sprintf("resize%d-bmp", i))
	}
	s.X, s.Y, s.Labels = append(s.X, 0, 0), append(s.Y, 0, 1500), append(s.Labels, "origin", "corner")
	for _, width := range []float64{Wide, Narrow} {
		all := texts(t, Scatter("", "x", "y", s).Inline(width), width)
		for i, a := range s.Labels {
			if len(all[a]) != 1 {
				t.Fatalf("%s is there %d times", a, len(all[a]))
			}
			for _, b := range s.Labels[:i] {
				if c := common(all[a][0], all[b][0]); c > 0 {
					t.Errorf("at %.0f %s covers %s by %.1f", width, a, b, c)
				}
			}
		}
	}
}

// Bars are as long as their values.
func TestLengths(t *testing.T) {
	svg := HorizontalBars("", "x", []string{"a", "b"}, Series{Y: []float64{50, 100}}).Inline(Wide)
	length := func(path string) float64 {
		var x0, y0, x1, y1, x2, y2 float64
		if _, err := fmt.Sscanf(path, "M%f,%fL%f,%fL%f,%f", &x0, &y0, &x1, &y1, &x2, &y2); err != nil {
			t.Fatal(path, err)
		}
		return x2 - x0
	}
	var bars []float64
	for _, line := range strings.Split(svg, "\n") {
		if d, ok := strings.CutPrefix(line, `<path d="`); ok && strings.Contains(line, hex(palette[0])) {
			bars = append(bars, length(d))
		}
	}
	if len(bars) != 2 || bars[0] < 50 || math.Abs(bars[1]-2*bars[0]) > 0.1 {
		t.Errorf("lengths %v", bars)
	}
}

func TestTicks(t *testing.T) {
	for _, c := range []struct {
		low, high float64
		ticks     func(low, high float64, about int) []float64
		want      string
	}{
		{0, 3120, linear, "0 1,000 2,000 3,000 4,000"},
		{0.73, 1, linear, "0.7 0.8 0.9 1"},
		{-100, 30, linear, "-100 -50 0 50"},
		{6, 331, logarithmic, "5 10 20 50 100 200 500"},
		{1, 1e6, logarithmic, "1 100 10,000 1,000,000"},
		{1e15, 1e15 + 0.1, linear, "1e+15 1e+15"},
	} {
		var got []string
		for _, v := range c.ticks(c.low, c.high, 5) {
			got = append(got, tickText(v))
		}
		if got := strings.Join(got, " "); got != c.want {
			t.Errorf("%g to %g: %s, want %s", c.low, c.high, got, c.want)
		}
	}
}
