package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pipefs/pipefs/bench/research/labelled"
	"github.com/pipefs/pipefs/internal/testenv"
)

// TestTuning: what the example tells becomes tables and curves, and what it could not
// measure is an error.
func TestTuning(t *testing.T) {
	const told = `[
		{"name": "scan10", "accuracy": 0.5, "test": 8, "epochs": [{"epoch": 1, "seconds": 2, "bytes": 4e6, "view": "scan10", "loss": 1}, {"epoch": 2, "seconds": 4, "bytes": 8e6, "view": "scan10", "loss": 0.5}]},
		{"name": "scan5", "accuracy": 0.5, "test": 8, "epochs": [{"epoch": 1, "seconds": 1, "bytes": 2e6, "view": "scan5", "loss": 1}]},
		{"name": "autotune", "accuracy": 0.25, "test": 8, "epochs": [{"epoch": 1, "seconds": 2, "bytes": 6e6, "view": "scan10", "loss": 1}, {"epoch": 2, "seconds": 3, "bytes": 6.4e6, "view": "scan2", "loss": 0.75}],
		 "measurements": [{"epoch": 1, "similarity": {"1": 0.7, "2": 0.9, "5": 0.95, "10": 1}, "scans": 2, "problem": "", "bytes": 2e6}]}]`
	var runs []tuned
	testenv.Must(t, json.Unmarshal([]byte(told), &runs))
	r, err := tuningResult(runs)
	testenv.Must(t, err)
	if want := "tuned it reads 6 MB instead of the 8 of all scans, 1.2 times less, and ends with a loss of 0.750 instead of 0.500; scan 5 reads 2 MB and ends with 1.000."; r.Ours != want {
		t.Errorf("%q, want %q", r.Ours, want)
	}
	for i, want := range [][]string{
		{"**ours**, autotune", "6", "2", "3", "0.750", "25 % of 8", "scan10, scan2 from 2"},
		{"**ours**, what was read from then on", "scan 2"},
	} {
		if rows := r.Tables[i].Rows; !slices.Equal(rows[len(rows)-1], want) {
			t.Errorf("the last row is %q, want %q", rows[len(rows)-1], want)
		}
	}
	for _, f := range r.Figures {
		testenv.Must(t, f.draw(filepath.Join(t.TempDir(), f.File+".svg")))
	}
	runs[2].Measurements[0].Problem = "a gradient is zero"
	if _, err := tuningResult(runs); err == nil || !strings.Contains(err.Error(), "zero") {
		t.Errorf("it could not be measured: %v", err)
	}
	if _, err := tuningResult(runs[:2]); err == nil {
		t.Error("two trainings are enough")
	}
}

// TestTuningSet: photographs are known by their names; where there are none of ImageNet it
// says what is taken instead.
func TestTuningSet(t *testing.T) {
	e := &env{settings: settings{scale: 0.02}, used: t.TempDir()}
	dir, text, err := e.tuningSet(t.Context())
	testenv.Must(t, err)
	if classes, err := os.ReadDir(dir); err != nil || len(classes) != labelled.Classes || !strings.Contains(text, "-pictures has no photographs") {
		t.Errorf("%s has %d classes (%v): %s", dir, len(classes), err, text)
	}
	e.pictures = "photographs"
	for i := range 100 {
		e.photos = append(e.photos, filepath.Join(t.TempDir(), "n"+strings.Repeat("0", 7)+string(rune('0'+i%10))+"_"+strings.Repeat("x", i+1)+".JPEG"))
		testenv.Must(t, os.WriteFile(e.photos[i], []byte{byte(i)}, 0o644))
	}
	dir, text, err = e.tuningSet(t.Context())
	testenv.Must(t, err)
	if files, err := os.ReadDir(dir); err != nil || len(files) != 100 || !strings.Contains(text, "100 JPEG files of photographs") {
		t.Errorf("%s has %d files (%v): %s", dir, len(files), err, text)
	}
}
