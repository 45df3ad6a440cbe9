package tune

import "testing"

// TestDecide: what lasts decides, and what takes disk has to be worth it.
func TestDecide(t *testing.T) {
	row := func(view string, first, later float64, fits bool) Row {
		return Row{View: view, Rates: []float64{first}, Later: []float64{later}, Fits: fits}
	}
	for name, test := range map[string]struct {
		views []Row
		want  string
		gain  float64
	}{
		"first reads, where nothing fits": {[]Row{row("ppm", 200, 900, false), row("original", 100, 120, false)}, "ppm", 2},
		"later epochs, where all fits":    {[]Row{row("ppm", 50, 300, true), row("original", 100, 100, true)}, "ppm", 3},
		"one fits":                        {[]Row{row("ppm", 150, 900, false), row("original", 100, 200, true)}, "original", 1},
		"not worth the disk":              {[]Row{row("ppm", 104, 0, false), row("original", 100, 0, false)}, "original", 1},
		"a view that was allowed":         {[]Row{row("ppm", 150, 0, false), row("original", 100, 0, false), row("scan5", 400, 0, false)}, "scan5", 4},
		"no originals":                    {[]Row{row("ppm", 104, 0, false)}, "ppm", 0},
	} {
		r := Report{Views: test.views}
		r.decide()
		if got := r.Views[r.Winner].View; got != test.want || r.Gain() != test.gain {
			t.Errorf("%s: %s with a gain of %v, want %s with %v", name, got, r.Gain(), test.want, test.gain)
		}
	}
}

// TestBestPair: an encoded representation that takes disk of its own has to be
// worth it, too.
func TestBestPair(t *testing.T) {
	pair := func(view, encoded string, rate float64) Pair {
		return Pair{View: view, Encoded: encoded, Rows: []Row{{Rates: []float64{rate}}}}
	}
	for rate, want := range map[float64]string{90: "source", 103: "source", 120: "l3"} {
		r := Report{Pairs: []Pair{pair("ppm", "source", 100), pair("stored-ppm", "source", 110), pair("ppm", "l3", rate)}}
		if got := r.bestPair("ppm").Encoded; got != want {
			t.Errorf("l3 at %v of 100: %s, want %s", rate, got, want)
		}
		if got := r.bestPair("stored-ppm"); !got.ByLoader() {
			t.Errorf("by the loader: %+v", got)
		}
	}
}

// TestFirst: the originals are the mix of the loader with nothing in full.
func TestFirst(t *testing.T) {
	row := func(view, encoded string, share, rate float64) Row {
		return Row{View: view, Encoded: encoded, Share: share, Rates: []float64{rate}}
	}
	r := Report{Pairs: []Pair{{View: "bmp"}}, Views: []Row{
		row("bmp", "source", 0.5, 100), row("original", "", 0, 110), row("stored-bmp", "source", 0.2, 120), row("scan5", "", 0, 300),
	}}
	if view, share := r.First(); view != "stored-bmp" || share != 0.2 {
		t.Errorf("%s, %v", view, share)
	}
	r.Views[2].Rates[0] = 105
	if view, share := r.First(); view != "stored-bmp" || share != 0 {
		t.Errorf("%s, %v", view, share)
	}
	r.Views[0].Rates[0] = 200
	if view, share := r.First(); view != "bmp" || share != 0.5 {
		t.Errorf("%s, %v", view, share)
	}
}
