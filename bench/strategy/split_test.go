package strategy

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

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
			if want := len(work(p)) - s.Steps; len(s.Rest) != want {
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
		if _, err := Parse(registry, spec); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", spec, err, want)
		}
	}
}

// TestWithGrey wants the step on both sides of the last one, where that is possible.
func TestWithGrey(t *testing.T) {
	for spec, want := range map[string][]string{
		"resize256-center": {"resize256-grey-center-npy", "resize256-center-grey-npy"},
		"resize64-jpeg90":  {"resize64-grey-jpeg90"},
		"npy":              nil,
		"grey-center":      nil,
	} {
		var got []string
		pipelines, err := WithGrey(registry, parse(t, spec))
		for _, p := range pipelines {
			got = append(got, p.String())
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", spec, d)
		}
		if (err == nil) != (len(want) == 2) {
			t.Errorf("%s: error %v", spec, err)
		}
	}
}
