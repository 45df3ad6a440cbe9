package views

import (
	"slices"
	"strings"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/codecs"
)

// TestWorks: beside a view that is ready stand plain files for which the loader does the
// same; without one, nothing changes.
func TestWorks(t *testing.T) {
	registry := codecs.Default(transcode.Limits{})
	for _, c := range []struct {
		views []string
		plain []string
		says  string
	}{
		{[]string{"original", "bmp", "resize256-npy", "mix"}, nil, ""},
		{[]string{"rrc224-hflip-npy"}, []string{"plain files"}, "Plain files get RandomResizedCrop(224), RandomHorizontalFlip() in the loader; of rrc224-hflip-npy it loads arrays"},
		{[]string{"rrc224-hflip-npy", "resize256-crop224-npy"}, []string{"plain files", "plain files, resize256-crop224"}, "Plain files get Resize(256), CenterCrop(224) in the loader; of resize256-crop224-npy"},
		{[]string{"resize256-crop224-npy", "bmp"}, []string{"plain files, resize256-crop224", "plain files"}, "Plain files and the other views get RandomResizedCrop(224), RandomHorizontalFlip() in the loader."},
		{[]string{"resize256-crop224-float32-npy", "rrc32-ppm"}, []string{"plain files", "plain files, rrc32"}, "of rrc32-ppm"},
	} {
		w, err := worksOf(registry, c.views)
		testenv.Must(t, err)
		if w == nil {
			if c.plain != nil {
				t.Errorf("%v: nothing", c.views)
			}
			continue
		}
		all := w.plain("dir")
		var names []string
		for _, s := range all {
			names = append(names, s.View)
		}
		if !slices.Equal(names, c.plain) {
			t.Errorf("%v: %v", c.views, names)
		}
		for _, v := range c.views {
			p, err := registry.ParseRandom(v)
			testenv.Must(t, err)
			s := &subject{Row: Row{View: v, Random: p.Random()}}
			w.set(s, p)
			if s.Ready != (len(s.work.Transforms) == 0) {
				t.Errorf("%s: ready %v, and the loader does %s", v, s.Ready, s.work)
			}
			all = append(all, s)
		}
		if says := strings.Join(w.describe(all), " "); !strings.Contains(says, c.says) {
			t.Errorf("%v: %s", c.views, says)
		}
	}
	if _, err := worksOf(registry, []string{"upright-rrc224-npy"}); err == nil {
		t.Error("what torchvision does not have was compared")
	}
}

// TestAdviceReady: each view that is ready is compared with the plain files of its own work.
func TestAdviceReady(t *testing.T) {
	const train, val = "rrc224-hflip", "resize256-crop224"
	r := rows(
		Row{View: plainName, Control: true, Same: true, Cold: []float64{100}, FileBytes: 100, Work: train},
		Row{View: plainName + ", " + val, Control: true, Cold: []float64{200}, FileBytes: 100, Work: val},
		Row{View: "bmp", Same: true, Cold: []float64{150}, FileBytes: 500, Work: train},
		Row{View: "rrc224-hflip-npy", Ready: true, Random: true, Cold: []float64{300}, FileBytes: 150, Work: train},
		Row{View: "resize256-crop224-npy", Ready: true, Cold: []float64{500}, FileBytes: 150, StoredBytes: 150, Work: val},
		Row{View: "rrc64-npy", Ready: true, Random: true, Cold: []float64{300}, Work: "rrc64"},
	)
	r.advise("", "with --time 5m")
	want := []string{
		"Same pixels: point your loader at MNT/bmp: 1.50× your present tree, no more disk space.",
		"If three lines of the training may change: rrc224-hflip-npy by pipefs.RandomView is 3.00× your present tree with the same transforms, no more disk space.",
		"For validation: MNT/resize256-crop224-npy is 2.50× your present tree with the same transforms, 2.5× its disk space.",
		"If three lines of the training may change: rrc64-npy by pipefs.RandomView: 300 samples/s.",
	}
	if !slices.Equal(r.Advice.Lines, want) {
		t.Errorf("says %q", r.Advice.Lines)
	}
	if r.Advice.Same != 2 || r.Rows[3].Likeness() != "drawn" {
		t.Errorf("%+v", r.Advice)
	}
}
