package tune

import (
	"slices"
	"testing"

	"github.com/pipefs/pipefs/bench/loader"
)

// TestDecide: what lasts decides, and what takes disk has to be worth it.
func TestDecide(t *testing.T) {
	row := func(view string, first, later float64, fits bool) Row {
		r := Row{View: view, Rates: slices.Repeat([]float64{first}, 3), Later: slices.Repeat([]float64{later}, 3), Fits: fits, files: 600}
		for range 3 {
			r.first.seconds, r.later.seconds = append(r.first.seconds, 200/first), append(r.later.seconds, 200/later)
			r.first.uses, r.later.uses = append(r.first.uses, loader.Use{Busy: 0.9}), append(r.later.uses, loader.Use{Busy: 0.9})
		}
		return r
	}
	noisy := func(r Row, by ...float64) Row {
		for i := range by {
			r.Rates[i] *= by[i]
		}
		return r
	}
	crowded := func(r Row) Row {
		r.first.uses[1].Others = 0.8
		return r
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
		"not surely faster":               {[]Row{noisy(row("ppm", 110, 0, false), 0.88, 1, 1.1), row("original", 100, 0, false)}, "original", 1},
		"noise":                           {[]Row{noisy(row("ppm", 150, 0, false), 0.5, 1.3, 1), row("original", 100, 0, false)}, "", 0},
		"noise where nothing gains":       {[]Row{noisy(row("ppm", 99, 0, false), 0.5, 1.3, 1), row("original", 100, 0, false)}, "", 0},
		"noise that does not matter":      {[]Row{noisy(row("ppm", 40, 0, false), 0.5, 1.3, 1), row("original", 100, 0, false)}, "original", 1},
		"something else was busy":         {[]Row{crowded(row("ppm", 300, 0, false)), row("original", 100, 0, false)}, "", 0},
		"noise without originals":         {[]Row{crowded(row("ppm", 300, 0, false))}, "", 0},
		"one round":                       {[]Row{{View: "ppm", Rates: []float64{300}}, {View: "original", Rates: []float64{100}}}, "", 0},
		"one round for the originals":     {[]Row{{View: "ppm", Rates: []float64{100}}, {View: "original", Rates: []float64{300}}}, "", 0},
	} {
		r := Report{Views: test.views}
		r.decide()
		got := ""
		if r.Winner >= 0 {
			got = r.Views[r.Winner].View
		}
		if got != test.want || r.Gain() != test.gain || (r.Noise != "") != (test.want == "") {
			t.Errorf("%s: %q with a gain of %v, want %q with %v; noise: %q", name, got, r.Gain(), test.want, test.gain, r.Noise)
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

// TestFirst: the originals are the mix of the loader with nothing materialized.
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
