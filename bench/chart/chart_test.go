package chart

import (
	"bytes"
	"image/png"
	"os"
	"path/filepath"
	"testing"
)

func TestCharts(t *testing.T) {
	dir := t.TempDir()
	s := []Series{{"loading", []float64{0, 5, 10}, []float64{300, 120, 40}}, {"decoding", []float64{0, 5, 10}, []float64{80, 160, 900}}}
	for _, name := range []string{"lines.svg", "lines.png", "bars.svg"} {
		file := filepath.Join(dir, name)
		var err error
		if name == "bars.svg" {
			err = Bars(file, "Rates", "samples/s", []string{"25 MB/s", "50 MB/s", "100 MB/s"}, s...)
		} else {
			err = Lines(file, "Rates", "share", "samples/s", s...)
		}
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if filepath.Ext(name) == ".png" {
			if _, err := png.Decode(bytes.NewReader(b)); err != nil {
				t.Error(err)
			}
		} else if !bytes.Contains(b, []byte("<svg")) || !bytes.Contains(b, []byte("loading")) {
			t.Errorf("%s: no picture of what was given: %.80q", name, b)
		}
	}
}
