package views

import (
	"slices"
	"strings"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/codecs"
)

var registry = codecs.Default(transcode.Limits{})

func parse(t testing.TB, spec string) transcode.Pipeline {
	t.Helper()
	p, err := ParsePipeline(registry, spec)
	testenv.Must(t, err)
	return p
}

// TestSplits wants PRESTO's names, and views that hold what is stored.
func TestSplits(t *testing.T) {
	for spec, want := range map[string]string{
		"resize256-center": "unprocessed:original packed:original decoded:bmp resize256:resize256-bmp center:resize256-center-npy",
		"npy":              "unprocessed:original packed:original decoded:bmp",
		"bmp":              "unprocessed:original packed:original decoded:bmp bmp:bmp",
		"scan5":            "unprocessed:original packed:original scan5:scan5",
		"scan5-resize64-grey-center-chw": "unprocessed:original packed:original scan5:scan5 decoded:scan5-bmp resize64:scan5-resize64-bmp " +
			"grey:scan5-resize64-grey-bmp center:scan5-resize64-grey-center-npy chw:scan5-resize64-grey-center-chw-npy",
		"resize64-jpeg90": "unprocessed:original packed:original decoded:bmp resize64:resize64-bmp jpeg90:resize64-jpeg90",
		"center-grey":     "unprocessed:original packed:original decoded:bmp center:center-npy grey:center-grey-npy",
	} {
		var got []string
		p := parse(t, spec)
		for _, s := range Splits(registry, p) {
			got = append(got, s.Name+":"+s.View)
			if s.View != "" {
				if _, err := registry.Parse(s.View); err != nil {
					t.Errorf("%s: view of %s: %v", spec, s.Name, err)
				}
			}
			if want := len(Work(p)) - s.Steps; len(s.Rest) != want {
				t.Errorf("%s: after %s %v, want %d steps", spec, s.Name, s.Rest, want)
			}
		}
		if got := strings.Join(got, " "); got != want {
			t.Errorf("%s:\n %s, want\n %s", spec, got, want)
		}
	}
}

// TestParse wants pixels as an end, and the errors of views for all else.
func TestParse(t *testing.T) {
	if got := parse(t, "resize256-center").String(); got != "resize256-center-npy" {
		t.Error(got)
	}
	if got := parse(t, "resize256-center-npy").String(); got != "resize256-center-npy" {
		t.Error(got)
	}
	for spec, want := range map[string]string{
		"resize256-": "an empty word", "resise256": "did you mean resize", "": "an empty word", "jpeg90-resize256": "ends a view",
	} {
		if _, err := ParsePipeline(registry, spec); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", spec, err, want)
		}
	}
}

// TestAdviseSplit wants advice that other commands understand, and none from noise.
func TestAdviseSplit(t *testing.T) {
	for _, test := range []struct {
		spec, fastest string
		rounds        int
		want          string
	}{
		{"resize256-center", "unprocessed", 6, "nothing is worth storing"},
		{"resize256-center", "packed", 6, "pipefs pack DATASET STORE --originals keep"},
		{"resize256-center", "decoded", 6, "pipefs materialize STORE bmp"},
		{"resize256-center", "resize256", 6, "store the result of resize256 and do center at each read: 3.00× the files as they are, for 2.00 MB of disk space."},
		{"resize256-center", "resize256", 6, "pipefs materialize STORE resize256-bmp"},
		{"resize256-center", "resize256", 2, "too noisy to tell: fewer than 3 rounds"},
		{"resize256-center", "unprocessed", 2, "too noisy to tell: fewer than 3 rounds"},
		{"scan5-crop64-npy", "scan5", 6, "and read MNT/scan5-crop64-npy"},
	} {
		p := parse(t, test.spec)
		var all []Row
		for _, split := range Splits(registry, p) {
			rate := 100.0
			if split.Name == test.fastest && split.Stored {
				rate = 300
			}
			all = append(all, Row{View: split.Name, Path: p.String(), Split: &split, Cold: slices.Repeat([]float64{rate}, test.rounds), StoredBytes: 2000})
		}
		r := rows(all...)
		r.Pipeline, r.Samples = p.String(), 1000
		r.advise("", "with --time 5m")
		says := r.Advice.String()
		if !strings.Contains(says, test.want) {
			t.Errorf("%s of %s: no %q in\n%s", test.fastest, test.spec, test.want, says)
		}
		if _, after, ok := strings.Cut(says, "materialize STORE "); ok {
			_, err := registry.Parse(strings.Fields(after)[0])
			testenv.Must(t, err)
		}
		if test.fastest == "scan5" && strings.Contains(says, "materialize") {
			t.Errorf("packing alone stores scan5:\n%s", says)
		}
	}
}
