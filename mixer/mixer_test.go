package mixer

import "testing"

func TestLongest(t *testing.T) {
	tests := map[string]struct {
		candidates []Candidate
		want       int
	}{
		"the only one":             {[]Candidate{{Steps: 0, Bytes: 100, Dataset: true}}, 0},
		"fewest steps left":        {[]Candidate{{Steps: 0, Bytes: 10}, {Steps: 3, Bytes: 1000}, {Steps: 1, Bytes: 5}}, 1},
		"the smaller of two alike": {[]Candidate{{Steps: 1, Bytes: 20}, {Steps: 1, Bytes: 10}, {Steps: 0, Bytes: 1}}, 1},
		"the first of two equal":   {[]Candidate{{Steps: 1, Bytes: 10}, {Steps: 1, Bytes: 10}}, 0},
	}
	for name, test := range tests {
		r := Request{Key: 7, Steps: 3, Candidates: test.candidates}
		if got := (Longest{}).Choose(r); got != test.want {
			t.Errorf("%s: chose %d, want %d", name, got, test.want)
		}
	}
}

// TestLongestDoesNotAllocate: a policy is asked on every read.
func TestLongestDoesNotAllocate(t *testing.T) {
	var p Policy = Longest{}
	r := Request{Candidates: []Candidate{{Steps: 1}, {Steps: 2}}}
	if allocs := testing.AllocsPerRun(100, func() { p.Choose(r) }); allocs != 0 {
		t.Errorf("%v allocations a choice", allocs)
	}
}
