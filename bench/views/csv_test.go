package views

import (
	"bytes"
	"encoding/csv"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
)

func TestCSV(t *testing.T) {
	r := &Report{Rows: []Row{
		{View: "ppm", Same: true, Fits: true, Cold: []float64{90, 100, 110}, Cached: []float64{400, 500, 600}, FileBytes: 1500, P50: 0.25},
		{View: "a \"b\", c\nd", Error: "no such view", Doubt: "noise"},
	}}
	var b bytes.Buffer
	testenv.Must(t, CSV(&b, r))
	lines, err := csv.NewReader(&b).ReadAll() // which wants lines of one length
	if err != nil || len(lines) != 3 {
		t.Fatal(len(lines), err)
	}
	at := func(line int, column string) string {
		for i, name := range lines[0] {
			if name == column {
				return lines[line][i]
			}
		}
		t.Fatalf("no column %s", column)
		return ""
	}
	for _, c := range []struct {
		line         int
		column, want string
	}{
		{1, "view", "ppm"}, {1, "cold_median_samples_per_s", "100"}, {1, "cold_low_samples_per_s", "90"},
		{1, "lasting_high_samples_per_s", "600"}, {1, "first_median_samples_per_s", ""}, {1, "rounds", "3"},
		{1, "file_bytes_per_sample", "1500"}, {1, "stored_bytes_per_sample", "0"}, {1, "p50_s", "0.25"}, {1, "p99_s", ""},
		{1, "computing_share", ""},
		{2, "view", "a \"b\", c\nd"}, {2, "error", "no such view"}, {2, "doubt", "noise"}, {2, "others_share", ""}, {2, "file_bytes_per_sample", ""}, {2, "lasting_median_samples_per_s", ""},
	} {
		if got := at(c.line, c.column); got != c.want {
			t.Errorf("line %d, %s: %q, want %q", c.line, c.column, got, c.want)
		}
	}
}
