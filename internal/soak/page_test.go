package main

import (
	"strings"
	"testing"
	"time"
)

// TestPage: a row is reached only if all runs together did enough, within the limit, and the last one did not fail.
func TestPage(t *testing.T) {
	kills := func(all ...*done) (runs []run) {
		for _, d := range all {
			runs = append(runs, run{Date: time.Unix(0, 0).UTC(), Commit: "c0ffee", Rows: map[string]*done{"kills": d}})
		}
		return runs
	}
	for want, runs := range map[string][]run{
		"| 0 | 0 s, longest wait | never | missed: never run |":                                 nil,
		"| 4,999 | 0.5 s, longest wait | 1970-01-01 c0ffee | missed: too few yet |":             kills(&done{Done: 4999, Worst: 0.5}),
		"| 6,000 | 0.5 s, longest wait | 1970-01-01 c0ffee | reached |":                         kills(&done{Done: 3000, Worst: 0.5, Failed: []string{"x"}}, &done{Done: 3000}),
		"| 6,000 | 2 s, longest wait | 1970-01-01 c0ffee | missed: above the limit |":           kills(&done{Done: 3000, Worst: 2}, &done{Done: 3000}),
		"| 6,000 | 0 s, longest wait | 1970-01-01 c0ffee | missed: nothing was proved failed |": kills(&done{Done: 6000}, &done{Failed: []string{"nothing was proved"}}),
	} {
		if page := string(text(runs)); !strings.Contains(page, want) {
			t.Errorf("%s\nis not in\n%s", want, page)
		}
	}
	mutants := []run{{Rows: map[string]*done{"mutants": {Done: 100, Worst: 30, Survived: map[string]string{"a": ""}}}}, {Rows: map[string]*done{"mutants": {Done: 100, Worst: 10, Survived: map[string]string{"b": "why"}}}}}
	if page := string(text(mutants)); strings.Contains(page, "- a:") || !strings.Contains(page, "- b: why\n") || !strings.Contains(page, "| 100 | 10 % not noticed |") {
		t.Errorf("%s\nlists other mutants", page)
	}
	for want, runs := range map[string][]run{"- none\n": kills(&done{Done: 1}), "- 1970-01-01 00:00, c0ffee: x, y\n": kills(&done{Failed: []string{"x", "y"}})} {
		if page := string(text(runs)); !strings.Contains(page, want) {
			t.Errorf("%s\nis not in\n%s", want, page)
		}
	}
}
