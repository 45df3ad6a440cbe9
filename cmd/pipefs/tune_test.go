package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pipefs/pipefs/bench/tune"
	"github.com/pipefs/pipefs/internal/exit"
	"github.com/pipefs/pipefs/store"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/codecs"
)

// TestApplyTuning: a winner is stored, and auto leads to it; noise changes nothing.
func TestApplyTuning(t *testing.T) {
	_, dir := packed(t, codecs.Default(transcode.Limits{}))
	program, err := exec.LookPath("pipefs")
	if err != nil {
		t.Fatal(err)
	}
	c := &tuneConfig{store: dir, format: "bmp"}
	r := &tune.Report{Rounds: 3, Winner: -1, Noise: "others were busy", Views: []tune.Row{{View: "bmp", Encoded: "source", Share: 0.5}}}
	err = applyTuning(t.Context(), nowhere, c, program, r)
	const want = "nothing was stored: too noisy to tell: others were busy; run again with --rounds 12, or when the machine is quiet"
	if err == nil || err.Error() != want || exit.Of(err) != exit.System {
		t.Errorf("%v, code %d; want %s", err, exit.Of(err), want)
	}
	if v := tuningVerdict(r); !strings.HasPrefix(v, "Too noisy to tell: others were busy; run again") {
		t.Error(v)
	}
	if a, err := store.ReadAuto(dir); err == nil && a.View != "" {
		t.Errorf("noise was written: %+v", a)
	}
	r.Winner = 0
	if err := applyTuning(t.Context(), nowhere, c, program, r); err != nil {
		t.Fatal(err)
	}
	if a, err := store.ReadAuto(dir); err != nil || a.View != "bmp" || a.Share != 0.5 {
		t.Errorf("%+v, %v", a, err)
	}
	if packs, _ := filepath.Glob(filepath.Join(dir, "fractions", "bmp", "*.pack")); len(packs) == 0 {
		entries, _ := os.ReadDir(filepath.Join(dir, "fractions"))
		t.Errorf("the mix was not stored: %v", entries)
	}
}
