package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/pipefs/pipefs/bench/strategy"
	"github.com/pipefs/pipefs/bench/text"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/codecs"
)

// strategyReport is one whose fastest strategy is that of the split named.
func strategyReport(t *testing.T, spec, fastest, compression string) *strategy.Report {
	t.Helper()
	registry := codecs.Default(transcode.Limits{})
	p, err := strategy.Parse(registry, spec)
	testenv.Must(t, err)
	r := &strategy.Report{Pipeline: p.String(), Samples: 10, Dataset: 1000, Bytes: 50_000, Rounds: 4}
	for i, split := range strategy.Splits(registry, p) {
		row := strategy.Row{
			Split: split, Compression: strategy.None, Workers: 2, Offline: float64(i), Stored: int64(50_000 * (1 + i)),
			Caches: map[string]*strategy.Epochs{strategy.NoCache: {Rates: []float64{100, 100, 100, 100}, CPU: .002}},
		}
		if split.Name == fastest {
			row.Compression = compression
			row.Caches[strategy.NoCache].Rates = []float64{300, 310, 290, 300}
			row.Caches[strategy.Application] = &strategy.Epochs{Error: "does not fit in memory"}
		}
		r.Rows = append(r.Rows, row)
	}
	r.Score(strategy.DefaultWeights)
	return r
}

// TestPrintStrategies wants advice that other commands understand.
func TestPrintStrategies(t *testing.T) {
	registry := codecs.Default(transcode.Limits{})
	for _, test := range []struct{ spec, fastest, compression, want string }{
		{"resize256-center", "unprocessed", "none", "Nothing is worth storing"},
		{"resize256-center", "packed", "none", "pipefs pack --originals keep DATASET STORE"},
		{"resize256-center", "decoded", "none", "pipefs materialize STORE bmp"},
		{"resize256-center", "resize256", "none", "store the result of resize256 and do center at each read: 3.05 times"},
		{"resize256-center", "resize256", "none", "pipefs materialize STORE resize256-bmp"},
		{"resize256-center", "center", "zstd", "pipefs materialize STORE resize256-center-npy"},
		{"resize256-center", "center", "zstd", "stands for zstd"},
		{"scan5-crop64-npy", "scan5", "none", "and read MNT/scan5,"},
	} {
		var b bytes.Buffer
		text.Strategies(&b, strategyReport(t, test.spec, test.fastest, test.compression))
		out := b.String()
		if !strings.Contains(out, test.want) {
			t.Errorf("%s of %s: no %q in\n%s", test.fastest, test.spec, test.want, out)
		}
		if _, after, ok := strings.Cut(out, "materialize STORE "); ok {
			if _, err := registry.Parse(strings.Fields(after)[0]); err != nil {
				t.Error(err)
			}
		}
		if (test.fastest == "scan5") == strings.Contains(out, "materialize") && test.fastest != "packed" && test.fastest != "unprocessed" {
			t.Errorf("%s of %s:\n%s", test.fastest, test.spec, out)
		}
		if strings.Contains(out, "compression") != (test.compression != "none") || !strings.Contains(out, "does not fit") {
			t.Errorf("columns of\n%s", out)
		}
	}
	var b bytes.Buffer
	text.Strategies(&b, &strategy.Report{Winner: -1, Base: -1})
	if !strings.Contains(b.String(), "Nothing was measured") {
		t.Error(b.String())
	}
}
