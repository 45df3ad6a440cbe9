package mssim

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSummarize(t *testing.T) {
	l := &Survey{}
	var found []degrees
	for i := range 40 {
		low := 0.9
		if i < 2 { // a twentieth
			low = 0.5
		}
		found = append(found, degrees{similarity: []float64{low, 0.96 - float64(i%2)*0.02, 1}, bytes: []int{100, 200 + 200*(i%2), 600}})
	}
	l.summarize(found)
	want := []ScanRow{
		{View: "scan1", Mean: 0.88, Low: 0.5, Bytes: 100, ShareRead: 1. / 6},
		{View: "scan2", Mean: 0.95, Low: 0.94, Reaching: 0.5, Bytes: 300, ShareRead: 0.5},
		{View: "scan3", Mean: 1, Low: 1, Reaching: 1, Bytes: 600, ShareRead: 1},
	}
	near := cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) < 1e-9 })
	if diff := cmp.Diff(want, l.Scans, near); diff != "" {
		t.Error(diff)
	}
	if l.Measured != 40 || l.Mark != 0.95 {
		t.Errorf("%+v", l)
	}
	l = &Survey{}
	l.summarize([]degrees{{similarity: []float64{0.3, 0.951, 0.949, 1}, bytes: []int{1, 2, 3, 4}}})
	if l.Lowest != "scan2" || l.Scans[0].Low != 0.3 {
		t.Errorf("%+v", l)
	}
	l = &Survey{}
	if l.summarize(nil); l.Lowest != "" || len(l.Scans) != 0 {
		t.Errorf("of nothing: %+v", l)
	}
}
