package views

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pipefs/pipefs/bench/loader"
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

// TestAdvice: who wins, and what is said of it.
func TestAdvice(t *testing.T) {
	plain := Row{View: plainName, Control: true, Same: true, Cold: []float64{100}, Cached: []float64{110}, FileBytes: 100}
	original := Row{View: "original", Same: true, Cold: []float64{90}, Cached: []float64{109}, FileBytes: 100}
	ppm := Row{View: "ppm", Same: true, Cold: []float64{50}, Cached: []float64{220}, FileBytes: 500}
	fits := ppm
	fits.Fits = true
	scan5 := Row{View: "scan5", MSSSIM: 0.96, Cold: []float64{150}, Cached: []float64{110}, FileBytes: 40, StoredBytes: 40}
	scan1 := Row{View: "scan1", MSSSIM: 0.7, Cold: []float64{300}, Cached: []float64{200}, StoredBytes: 10}
	small := Row{View: "resize64-ppm", Cold: []float64{900}, Cached: []float64{900}}
	broken := Row{View: "npy", Same: true, Error: "it broke", Cold: []float64{999}}
	for _, test := range []struct {
		name        string
		report      *Report
		same, lossy int
		lines       []string
	}{
		{"disk decides", rows(plain, original, ppm, scan5), 1, 3, []string{"stay with your present tree", "MNT/scan5, MS-SSIM 0.960: 1.50× your present tree, 1.4× its disk space"}},
		{"memory decides", rows(plain, original, fits), 2, -1, []string{"point your loader at MNT/ppm: 2.20× your present tree from the second epoch on, no more disk space"}},
		{"a safe scan before a faster one", rows(plain, original, scan1, scan5), 1, 3, []string{"", "scan5"}},
		{"a faster one if none is safe", rows(plain, scan1), -1, 1, []string{"under the PCR paper's mark of 0.95): 3.00×"}},
		{"what nothing is known of is not advised", rows(plain, original, small), 1, -1, []string{"stay"}},
		{"errors never win", rows(plain, original, broken), 1, -1, []string{"stay"}},
		{"without the tree", rows(ppm, scan5), 0, 1, []string{"the fastest: 50 samples/s", "150 samples/s"}},
		{"nothing at all", rows(broken), -1, -1, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			// memory decides against a tree that fits, too
			if test.name == "memory decides" {
				test.report.Rows[0].Cached = slices.Repeat([]float64{100}, 6)
				test.report.Rows[0].Fits = true
			}
			test.report.advise("", "with --time 5m")
			a := test.report.Advice
			if a.Same != test.same || a.Lossy != test.lossy {
				t.Errorf("advises %d and %d, want %d and %d", a.Same, a.Lossy, test.same, test.lossy)
			}
			if len(a.Lines) != len(test.lines) {
				t.Fatalf("says %q", a.Lines)
			}
			for i, want := range test.lines {
				if !strings.Contains(a.Lines[i], want) {
					t.Errorf("says %q, want %q in it", a.Lines[i], want)
				}
			}
		})
	}
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
	for _, test := range []struct {
		name        string
		report      *Report
		same, lossy int
		lines       []string
	}{
		{"rounds far apart", rows(plain, original, wide, rare), -1, 3, []string{
			"Same pixels: too noisy to tell: the gain may be anything from 0.", "Other pixels: MNT/scan5"}},
		{"something else was busy", rows(plain, original, crowded, rare), -1, 3, []string{
			"Same pixels: too noisy to tell: other processes used 40 % of the processors; run again with --time 5m, or when the machine is quiet.", "Other pixels: MNT/scan5"}},
		{"a slow view may be noisy", rows(plain, original, slow), 1, -1, []string{"Same pixels: stay with your present tree"}},
		{"noise beside what is clear", rows(plain, ppm, Row{View: "bmp", Same: true, Cold: []float64{60, 180, 70, 190, 65, 170}}), 1, -1, []string{"Same pixels: point your loader at MNT/ppm: 1.50×"}},
		{"processor time says that it is noise", rows(counted(plain, 0), counted(ppm, 0)), -1, -1, []string{"Same pixels: too noisy to tell: the processors were the limit"}},
		{"unless it is not all that was used", rows(counted(plain, 0), counted(ppm, 0.5)), 1, -1, []string{"Same pixels: point your loader at MNT/ppm"}},
		{"without the tree", rows(wide), -1, -1, []string{"Same pixels: too noisy to tell: the rate may be anything from 62.5 samples/s to"}},
	} {
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
