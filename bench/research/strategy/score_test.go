package strategy

import (
	"math"
	"testing"
)

// row is one with rates from the disk.
func row(name string, offline float64, stored int64, rates ...float64) Row {
	return Row{
		Split: Split{Name: name, Stored: name != Unprocessed}, Offline: offline, Stored: stored,
		Caches: map[string]*Epochs{NoCache: {Rates: rates}},
	}
}

func TestScore(t *testing.T) {
	// PRESTO's CV pipeline: figures 6a, in thousands of seconds and GB.
	presto := func() *Report {
		return &Report{Rounds: 1, Rows: []Row{
			row(Unprocessed, 0, 147, 107), row(Packed, 12, 147, 962), row(Decoded, 13, 842, 746),
			row("resized", 11, 347, 1789), row("pixel-centered", 18, 1390, 576),
		}}
	}
	for _, test := range []struct {
		weights Weights
		want    string
		score   float64
	}{
		{Weights{0, 0, 1}, "resized", 1},
		{Weights{0, 0, 7}, "resized", 7},
		{Weights{0, 1, 0}, Unprocessed, 1},
		{Weights{1, 0, 0}, Unprocessed, 1},
		{Weights{1, 0, 1}, "resized", 1 + 1 - 11./18},
		{Weights{0, 1, 1}, "resized", 1 + 1 - 200./1243},
	} {
		r := presto()
		r.Score(test.weights)
		won := r.Rows[r.Winner]
		if won.Split.Name != test.want || math.Abs(won.Score-test.score) > 1e-9 {
			t.Errorf("%v: %s with %v, want %s with %v", test.weights, won.Split.Name, won.Score, test.want, test.score)
		}
		if r.Base != 0 || math.Abs(r.Gain.Median-r.Rows[r.Winner].Rate(NoCache)/107) > 1e-9 {
			t.Errorf("%v: base %d, gain %v", test.weights, r.Base, r.Gain)
		}
	}
}

// TestScoreSame: what does not tell strategies apart counts nothing, and is a number.
func TestScoreSame(t *testing.T) {
	for _, rows := range [][]Row{
		{row(Packed, 3, 5, 100), row(Decoded, 3, 5, 100)},
		{row(Packed, 3, 5, 100)},
	} {
		r := &Report{Rounds: 1, Rows: rows}
		r.Score(Weights{1, 1, 1})
		for _, row := range r.Rows {
			if row.Score != 0 {
				t.Errorf("score %v", row.Score)
			}
		}
		if r.Winner != 0 || r.Base != -1 {
			t.Errorf("winner %d, base %d", r.Winner, r.Base)
		}
	}
	r := &Report{Rounds: 1, Rows: []Row{row(Packed, 3, 5, 100), row(Decoded, 3, 5, 200)}}
	r.Score(Weights{1, 1, 1})
	if r.Winner != 1 || r.Rows[1].Score != 1 || r.Rows[0].Score != 0 {
		t.Errorf("%+v", r)
	}
	// One without a rate takes no part, however little it stores.
	r = &Report{Rounds: 1, Rows: []Row{row(Packed, 0, 1), row(Decoded, 3, 5, 200), row("half", 4, 4, 100)}}
	r.Score(Weights{1, 1, 1})
	if r.Winner != 1 || r.Rows[0].Score != 0 {
		t.Errorf("%+v", r)
	}
	r = &Report{}
	r.Score(DefaultWeights)
	if r.Winner != -1 {
		t.Error("nothing won")
	}
}

// TestScoreSure wants the gain of rounds that the winner was not picked on.
func TestScoreSure(t *testing.T) {
	r := &Report{Rounds: 4, Rows: []Row{row(Unprocessed, 0, 1, 100, 100, 100, 100), row(Packed, 1, 1, 300, 200, 300, 200)}}
	r.Score(DefaultWeights)
	if !r.Sure || r.Gain.Median != 2 {
		t.Errorf("sure %v, gain %v", r.Sure, r.Gain)
	}
	r.Rows = append(r.Rows, row(Decoded, 1, 1, 310, 150, 310, 150))
	r.Score(DefaultWeights)
	if r.Sure || r.Winner != 1 {
		t.Errorf("sure %v, winner %d: the rounds do not agree", r.Sure, r.Winner)
	}
	for _, w := range []Weights{{}, {-1, 0, 2}, {math.NaN(), 0, 1}, {math.Inf(1), 0, 1}} {
		if w.Check() == nil {
			t.Errorf("%v is accepted", w)
		}
	}
}

// TestLasting: cached epochs count where what is stored fits.
func TestLasting(t *testing.T) {
	r := Row{Caches: map[string]*Epochs{NoCache: {Rates: []float64{1}}, System: {Rates: []float64{2}}, Application: {Rates: []float64{3}}}}
	if got := r.Lasting()[0]; got != 1 {
		t.Error(got)
	}
	r.Fits = true
	if got := r.Lasting()[0]; got != 2 {
		t.Error(got)
	}
	delete(r.Caches, System)
	if got := r.Lasting()[0]; got != 1 {
		t.Error(got)
	}
	delete(r.Caches, NoCache)
	if got := r.Lasting()[0]; got != 3 {
		t.Error(got)
	}
}
