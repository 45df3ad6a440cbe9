package chart

import (
	"encoding/xml"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
)

// Figures are XML, with numbers for all places, whatever is drawn.
func TestFiles(t *testing.T) {
	nan := math.NaN()
	for what, s := range map[string][]Series{
		"nothing": nil, "zeros": {{X: []float64{0}, Y: []float64{0}}}, "one": {{X: []float64{7}, Y: []float64{7}}},
		"odd":  {{Name: "<&\"", X: []float64{nan, 1, math.Inf(1)}, Y: []float64{1, 2, nan}, Low: []float64{nan, 1}, High: []float64{3, 3}}},
		"some": {{Name: "loading", X: []float64{0, 5, 10}, Y: []float64{300, 120, 40}}, {Name: "decoding", X: []float64{0, 5, 10}, Y: []float64{80, 160, 900}}},
	} {
		for _, f := range []*Figure{Curves("Rates", "share", "samples/s", s...), Columns("Rates", "samples/s", []string{"25 MB/s", "50 MB/s"}, s...)} {
			file := filepath.Join(t.TempDir(), "a.svg")
			testenv.Must(t, f.Save(file))
			b, err := os.ReadFile(file)
			testenv.Must(t, err)
			if err := xml.Unmarshal(b, &struct{}{}); err != nil || strings.Contains(string(b), "NaN") || strings.Contains(string(b), "Inf") {
				t.Errorf("%s: %v\n%s", what, err, b)
			}
		}
	}
}
