package views

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pipefs/pipefs/bench/loader"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/codecs"
)

// rows were measured in six rounds that were all alike, unless they tell more.
func rows(r ...Row) *Report {
	for i := range r {
		for _, rates := range []*[]float64{&r[i].First, &r[i].Cold, &r[i].Cached} {
			if len(*rates) == 1 {
				*rates = slices.Repeat(*rates, 6)
			}
		}
		if r[i].Seconds == nil {
			r[i].Seconds = slices.Repeat([]float64{2}, 6)
		}
	}
	return &Report{Rows: r, Read: 200, Advice: Advice{Same: -1, Lossy: -1, Base: -1}}
}

// advised is a report, which rows it has to advise, and what is in the lines that say so.
type advised struct {
	name        string
	report      *Report
	same, lossy int
	lines       []string
}

func advises(t *testing.T, all []advised) {
	for _, test := range all {
		t.Run(test.name, func(t *testing.T) {
			test.report.advise("", "with --time 5m")
			a := test.report.Advice
			if a.Same != test.same || a.Lossy != test.lossy || len(a.Lines) != len(test.lines) {
				t.Fatalf("advises %d and %d, want %d and %d: %q", a.Same, a.Lossy, test.same, test.lossy, a.Lines)
			}
			for i, want := range test.lines {
				if !strings.Contains(a.Lines[i], want) {
					t.Errorf("says %q, want %q in it", a.Lines[i], want)
				}
			}
		})
	}
}

// TestAdvice: who wins, and what is said of it.
func TestAdvice(t *testing.T) {
	plain := Row{View: plainName, Control: true, Same: true, Cold: []float64{100}, Cached: []float64{110}, FileBytes: 100}
	original := Row{View: "original", Same: true, Cold: []float64{90}, Cached: []float64{109}, FileBytes: 100}
	ppm := Row{View: "ppm", Same: true, Cold: []float64{50}, Cached: []float64{220}, FileBytes: 500}
	fits, kept := ppm, plain
	fits.Fits, kept.Fits, kept.Cached = true, true, []float64{100} // memory decides against a tree that fits, too
	scan5 := Row{View: "scan5", MSSSIM: 0.96, Cold: []float64{150}, Cached: []float64{110}, FileBytes: 40, StoredBytes: 40}
	scan1 := Row{View: "scan1", MSSSIM: 0.7, Cold: []float64{300}, Cached: []float64{200}, StoredBytes: 10}
	small := Row{View: "resize64-ppm", Cold: []float64{900}, Cached: []float64{900}}
	broken := Row{View: "npy", Same: true, Error: "it broke", Cold: []float64{999}}
	advises(t, []advised{
		{"disk decides", rows(plain, original, ppm, scan5), 1, 3, []string{"stay with your present tree", "MNT/scan5, MS-SSIM 0.960: 1.50× your present tree, 1.4× its disk space"}},
		{"memory decides", rows(kept, original, fits), 2, -1, []string{"point your loader at MNT/ppm: 2.20× your present tree from the second epoch on, no more disk space"}},
		{"a safe scan before a faster one", rows(plain, original, scan1, scan5), 1, 3, []string{"", "scan5"}},
		{"a faster one if none is safe", rows(plain, scan1), -1, 1, []string{"under the PCR paper's mark of 0.95): 3.00×"}},
		{"what nothing is known of is not advised", rows(plain, original, small), 1, -1, []string{"stay"}},
		{"errors never win", rows(plain, original, broken), 1, -1, []string{"stay"}},
		{"without the tree", rows(ppm, scan5), 0, 1, []string{"the fastest: 50 samples/s", "150 samples/s"}},
		{"nothing at all", rows(broken), -1, -1, nil},
	})
}

// TestNoise: what says nothing is not advised, and the line says why.
func TestNoise(t *testing.T) {
	plain := Row{View: plainName, Control: true, Same: true, Cold: []float64{100}, FileBytes: 100}
	original := Row{View: "original", Same: true, Cold: []float64{97}, FileBytes: 100}
	ppm := Row{View: "ppm", Same: true, Cold: []float64{150}}
	scan5 := Row{View: "scan5", MSSSIM: 0.96, Cold: []float64{150}}
	rare := scan5
	rare.Cold = []float64{140, 150, 160, 145, 155, 150}
	wide := ppm
	wide.Cold = []float64{60, 180, 70, 190, 65, 170}
	crowded := ppm
	crowded.Busy, crowded.Others = 0.9, 0.4
	slow := wide
	slow.Cold = []float64{20, 60, 25, 65, 20, 60}
	advises(t, []advised{
		{"rounds far apart", rows(plain, original, wide, rare), -1, 3, []string{
			"Same pixels: too noisy to tell: the gain may be anything from 0.", "Other pixels: MNT/scan5"}},
		{"something else was busy", rows(plain, original, crowded, rare), -1, 3, []string{
			"Same pixels: too noisy to tell: other processes used 40 % of the processors; run again with --time 5m, or when the machine is quiet.", "Other pixels: MNT/scan5"}},
		{"a slow view may be noisy", rows(plain, original, slow), 1, -1, []string{"Same pixels: stay with your present tree"}},
		{"noise beside what is clear", rows(plain, ppm, Row{View: "bmp", Same: true, Cold: []float64{60, 180, 70, 190, 65, 170}}), 1, -1, []string{"Same pixels: point your loader at MNT/ppm: 1.50×"}},
		{"processor time says that it is noise", rows(counted(plain, 0), counted(ppm, 0)), -1, -1, []string{"Same pixels: too noisy to tell: the processors were the limit"}},
		{"unless it is not all that was used", rows(counted(plain, 0), counted(ppm, 0.5)), 1, -1, []string{"Same pixels: point your loader at MNT/ppm"}},
		{"without the tree", rows(wide), -1, -1, []string{"Same pixels: too noisy to tell: the rate may be anything from 62.5 samples/s to"}},
	})
}

// counted took as much processor time as others, beside some that is not known.
func counted(r Row, uncounted float64) Row {
	r.Busy, r.ClientCold, r.uncounted = 0.95, 0.01, uncounted
	r.Seconds = nil
	for range 6 {
		r.Seconds = append(r.Seconds, 200/r.Cold[0])
	}
	return r
}

// TestAgain: what to do about noise is not what was done already.
func TestAgain(t *testing.T) {
	for want, c := range map[string]Config{
		"with --time 5m":  {Budget: 75 * time.Second},
		"with --time 20m": {Budget: 5 * time.Minute},
		"with --time 5m and without --rounds and --samples": {Budget: time.Second, Rounds: 3, Samples: 16},
	} {
		if got := (&runner{Config: c}).again(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestStoreNeedsNoSpace: what a store's views take is there.
func TestStoreNeedsNoSpace(t *testing.T) {
	r := rows(Row{View: "original", Same: true, Cold: []float64{100}, Cached: []float64{100}}, Row{View: "ppm", Same: true, Cold: []float64{200}, Cached: []float64{200}})
	r.Prepared = true
	r.advise("/mnt", "")
	if s := r.Advice.String(); !strings.Contains(s, "/mnt/ppm: 2.00× your present tree, which the store has already") {
		t.Error(s)
	}
}

// TestAnalysis: the worked example of an epoch whose three times are known.
func TestAnalysis(t *testing.T) {
	near := func(name string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 1e-9 {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	// A sample takes 1 ms to compute, 2 from memory, 5 from the disk.
	s := subject{Row: Row{Cold: []float64{200}, Cached: []float64{500}}}
	s.analyse(loader.Compute{Time: 10 * time.Millisecond, Batch: 10}, 2)
	near("ingest", s.Analysis.Ingest, 1000)
	near("prep", s.Analysis.Prep, 500)
	near("fetch", s.Analysis.Fetch, 1000./3)
	near("computing", s.Analysis.Computing, 0.2)
	near("prep stall", s.Analysis.PrepStall, 0.2)
	near("fetch stall", s.Analysis.FetchStall, 0.6)
	if s.Bottleneck != "the disk" {
		t.Error(s.Bottleneck)
	}
	// As fast from the disk as from memory: there is no rate of fetching.
	s = subject{Row: Row{Cold: []float64{500}, Cached: []float64{500}, ClientCold: 0.0038}}
	s.analyse(loader.Compute{}, 2)
	near("fetch", s.Analysis.Fetch, 0)
	near("ingest", s.Analysis.Ingest, 0)
	if s.Bottleneck != "the loader's processor time" {
		t.Error(s.Bottleneck)
	}
	s = subject{Row: Row{Cold: []float64{500}, Cached: []float64{500}, ClientCold: 0.001, DaemonCold: 0.0028}}
	s.analyse(loader.Compute{}, 2)
	if s.Bottleneck != "the daemon's processor time" {
		t.Error(s.Bottleneck)
	}
}

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
