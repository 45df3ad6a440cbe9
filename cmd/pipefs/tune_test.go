package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pipefs/pipefs/bench/report"
	"github.com/pipefs/pipefs/bench/tune"
	"github.com/pipefs/pipefs/internal/exit"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/store"
)

// TestApplyTuning: a winner is stored, and auto leads to it; noise changes nothing.
func TestApplyTuning(t *testing.T) {
	_, dir := packed(t)
	program, err := exec.LookPath("pipefs")
	testenv.Must(t, err)
	c := &tuneConfig{Config: tune.Config{Program: program, Store: dir, View: "bmp"}}
	r := &tune.Report{Rounds: 3, Winner: -1, Noise: "others were busy", Views: []tune.Row{{View: "bmp", Encoded: "source", Share: 0.5}}}
	err = applyTuning(t.Context(), nowhere, c, r)
	const want = "nothing was stored: too noisy to tell: others were busy; run again with --rounds 12, or when the machine is quiet"
	if err == nil || err.Error() != want || exit.Of(err) != exit.System {
		t.Errorf("%v, code %d; want %s", err, exit.Of(err), want)
	}
	var table strings.Builder
	if report.OfTuning(r).Text(&table); !strings.Contains(table.String(), "Too noisy to tell: others were busy; run again") {
		t.Error(table.String())
	}
	if a, err := autoOf(t, dir); err == nil && a.View != "" {
		t.Errorf("noise was written: %+v", a)
	}
	r.Winner = 0
	testenv.Must(t, applyTuning(t.Context(), nowhere, c, r))
	if a, err := autoOf(t, dir); err != nil || a.View != "bmp" || a.Share != 0.5 {
		t.Errorf("%+v, %v", a, err)
	}
	if packs, _ := filepath.Glob(filepath.Join(dir, "fractions", "bmp", "*.pack")); len(packs) == 0 {
		entries, _ := os.ReadDir(filepath.Join(dir, "fractions"))
		t.Errorf("the mix was not stored: %v", entries)
	}
}

// TestRebuiltIsTold: what rebuilding costs is told where originals are rebuilt, which is
// never so where their dataset is there.
func TestRebuiltIsTold(t *testing.T) {
	root, dir := packed(t)
	look := func(c tuneConfig) string {
		t.Helper()
		c.Store = dir
		rebuilt, err := c.look(t.Context(), nowhere, []string{"scan5"})
		testenv.Must(t, err)
		return rebuilt
	}
	if told := look(tuneConfig{}); told != "" {
		t.Error(told)
	}
	away := root + ".away"
	testenv.Must(t, os.Rename(root, away))
	if told := look(tuneConfig{}); !strings.HasPrefix(told, "original/ rebuilds 3 JPEG files from scans when they are first read, at about 2 to 3 ms of CPU each") {
		t.Error(told)
	}
	if told := look(tuneConfig{Config: tune.Config{Dataset: away}}); told != "" {
		t.Error(told)
	}
	var table strings.Builder
	report.OfTuning(&tune.Report{Rebuilt: "this is why", Views: []tune.Row{{View: "original"}}}).Text(&table)
	if !strings.Contains(table.String(), "this is why\n") {
		t.Error(table.String())
	}
}

// packed is a dataset and a store of it.
func packed(t *testing.T) (root, dir string) {
	t.Helper()
	root, dir = filepath.Join(t.TempDir(), "ds"), filepath.Join(t.TempDir(), "st")
	testenv.Must(t, os.MkdirAll(filepath.Join(root, "sub"), 0o755))
	testenv.Must(t, writeDataset(root))
	testenv.Must(t, dispatch(t.Context(), nowhere, []string{"pipefs", "pack", root, dir}))
	return root, dir
}

// autoOf is what a store says of its view auto.
func autoOf(t *testing.T, dir string) (store.Auto, error) {
	t.Helper()
	s, err := store.Open(dir, store.Options{})
	testenv.Must(t, err)
	defer s.Close()
	return s.Auto()
}
