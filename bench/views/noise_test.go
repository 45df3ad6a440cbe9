package views

import (
	"slices"
	"strings"
	"testing"
)

// quiet is six rounds of a second each on a quiet machine of two processors, which
// the loader keeps busy.
func quiet(rate, cpu float64) Turns {
	rates := spread(rate, 0.97, 1, 1.02, 0.99, 1.03, 1)
	return Turns{Rates: rates, Seconds: of(400, rates), Samples: 400, CPU: cpu, Busy: 0.95, Others: 0.02}
}

// of is how long epochs take.
func of(samples int, rates []float64) []float64 {
	seconds := make([]float64, len(rates))
	for i, r := range rates {
		seconds[i] = float64(samples) / r
	}
	return seconds
}

func spread(rate float64, by ...float64) []float64 {
	for i := range by {
		by[i] *= rate
	}
	return by
}

// with is a changed copy.
func with(t Turns, change func(*Turns)) Turns {
	change(&t)
	return t
}

// TestDoubt: which figures show whether something is faster, and why others do not.
func TestDoubt(t *testing.T) {
	jpeg, ppm := quiet(520, 0.0037), quiet(930, 0.0020)
	// Measured while compilers ran: 1.89× (1.53–3.92), where a sample took as much
	// processor time as before.
	recorded := func(samples int, rate, cpu, others float64, by ...float64) Turns {
		rates := spread(rate, by...)
		return Turns{Rates: rates, Seconds: of(samples, rates), Samples: samples, CPU: cpu, Busy: 0.98, Others: others}
	}
	busyBase := func(samples int) Turns { return recorded(samples, 100, 0.0070, 0.55, 1, 0.6, 1.1, 0.7, 1, 0.62) }
	busyBest := func(samples int) Turns {
		return recorded(samples, 100, 0.0069, 0.31, 1.89, 2.37, 1.70, 2.74, 1.53, 1.20)
	}
	unseen := func(t *Turns) { t.Others = 0 }
	for _, test := range []struct {
		name    string
		a, base Turns
		want    string // in the answer; empty: there is no doubt
	}{
		{"less processor time", ppm, jpeg, ""},
		{"none of it is known", with(ppm, func(t *Turns) { t.CPU, t.Busy, t.Others = 0, 0, 0 }), jpeg, ""},
		{"epochs of another length", with(ppm, func(t *Turns) { t.Samples, t.Seconds = 100, of(100, t.Rates) }), jpeg, ""},
		{"as fast", quiet(525, 0.0037), jpeg, ""},
		{"slower", jpeg, ppm, ""},

		{"the recorded case", busyBest(24), busyBase(24), "other processes used 55 % of the processors"},
		{"the recorded case, read for longer", busyBest(240), busyBase(240), "other processes used 55 %"},
		{"the recorded case, others not seen", with(busyBest(24), unseen), with(busyBase(24), unseen), "144 samples were read in 0.8 s, and at least 200 in 0.5 s are needed"},
		{"the recorded case, neither", with(busyBest(240), unseen), with(busyBase(240), unseen), "the processors were the limit, and epochs are 1.91× as fast where processor time explains 1.01×"},
		{"the recorded case, nor processor time", with(busyBest(240), func(t *Turns) { unseen(t); t.CPU = 0 }), with(busyBase(240), unseen), "the gain may be anything from 1.5"},

		{"others on one side only", ppm, with(jpeg, func(t *Turns) { t.Others = 0.3 }), "other processes used 30 %"},
		{"others where most is idle", with(ppm, func(t *Turns) { t.Others, t.Busy = 0.3, 0.4 }), with(jpeg, func(t *Turns) { t.Others, t.Busy = 0.3, 0.4 }), ""},
		{"few samples that take long", with(ppm, func(t *Turns) { t.Samples, t.Seconds = 20, of(20, spread(10, 1, 1, 1, 1, 1, 1)) }), with(jpeg, func(t *Turns) { t.Samples, t.Seconds = 20, of(20, spread(6, 1, 1, 1, 1, 1, 1)) }), ""},
		{"one round", with(ppm, func(t *Turns) { t.Rates = t.Rates[:1] }), jpeg, "fewer than 3 rounds"},
		{"a round in which nothing came", with(ppm, func(t *Turns) { t.Rates, t.Busy = spread(1, 0, 0, 0, 930, 930, 930), 0.5 }), with(jpeg, func(t *Turns) { t.Busy = 0.5 }), "anything from 0× to"},

		{"faster than processor time explains", quiet(930, 0.0036), jpeg, "1.79× as fast where processor time explains 1.03×"},
		{"as fast, though half the processor time is enough", quiet(520, 0.0018), jpeg, "1.00× as fast where"},
		{"as fast, and then something else is the limit", with(quiet(520, 0.0018), func(t *Turns) { t.Busy = 0.5 }), jpeg, ""},
		{"faster, where processors are not the limit", with(quiet(930, 0.0036), func(t *Turns) { t.Busy = 0.6 }), with(jpeg, func(t *Turns) { t.Busy = 0.3 }), ""},

		{"a wide interval of a large gain", with(quiet(1300, 0.0014), func(t *Turns) { t.Rates = spread(1300, 0.7, 1.1, 0.75, 1.15, 0.9, 1) }), jpeg, ""},
		{"a wide interval of a small gain", with(ppm, func(t *Turns) { t.Rates = spread(650, 0.6, 1.3, 0.65, 1.35, 1, 1); t.CPU = 0 }), jpeg, "the gain may be anything from"},
		{"a wide interval of a clear loss", with(ppm, func(t *Turns) { t.Rates = spread(200, 0.6, 1.3, 0.65, 1.35, 1, 1); t.CPU = 0 }), jpeg, ""},
		{"nothing was measured", Turns{}, Turns{}, "fewer than 3 rounds"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := Doubt(test.a, test.base)
			if test.want == "" && got != "" || !strings.Contains(got, test.want) {
				t.Errorf("%q, want %q (gain %.2f)", got, test.want, Paired(test.a.Rates, test.base.Rates))
			}
		})
	}
}

// TestDoubtAlone: rates that nothing is compared with.
func TestDoubtAlone(t *testing.T) {
	steady := quiet(500, 0.003)
	for _, test := range []struct {
		a    Turns
		want string
	}{
		{steady, ""},
		{with(steady, func(t *Turns) { t.Others = 0.2 }), "other processes"},
		{with(steady, func(t *Turns) { t.Seconds = spread(0.1, 1, 1, 1) }), "are needed"},
		{with(steady, func(t *Turns) { t.Rates = spread(500, 0.5, 0.6, 0.5, 1.2, 1.1, 1.3) }), "samples/s to"},
	} {
		if got := DoubtAlone(test.a); test.want == "" && got != "" || !strings.Contains(got, test.want) {
			t.Errorf("%q, want %q", got, test.want)
		}
	}
}

// TestEnough: the rounds that it names are no longer too few.
func TestEnough(t *testing.T) {
	for _, e := range []struct {
		samples int
		seconds float64
	}{{24, 0.05}, {40, 0.07}, {24, 3}, {1000, 2}, {1000, 0.2}, {1, 60}} {
		n := Enough(e.samples, e.seconds)
		enough := Turns{Rates: make([]float64, n), Seconds: spread(e.seconds, ones(n)...), Samples: e.samples}
		if why := few(enough); why != "" || n > 60 {
			t.Errorf("%+v: %d rounds: %s", e, n, why)
		}
	}
}

func ones(n int) []float64 { return slices.Repeat([]float64{1}, n) }

// TestVerdict: what is faster by enough wins, and too few rounds exclude nothing.
func TestVerdict(t *testing.T) {
	one := func(rate float64) Turns { return Turns{Rates: []float64{rate}, Seconds: []float64{4}, Samples: 400} }
	base := quiet(520, 0.0037)
	noisy := with(quiet(500, 0), func(t *Turns) { t.Rates = spread(510, 0.6, 1.3, 0.65, 1.35, 1, 1) })
	for _, test := range []struct {
		name   string
		all    []Turns
		base   int
		winner int // where there is no doubt
		why    string
	}{
		{"faster", []Turns{base, quiet(930, 0.0020)}, 0, 1, ""},
		{"faster, but not by enough", []Turns{base, quiet(535, 0.0036)}, 0, 0, ""},
		{"slower", []Turns{quiet(400, 0.0048), base}, 1, 1, ""},
		{"noise", []Turns{base, noisy}, 0, 0, "the gain may be anything"},
		{"noise that is slow in any case", []Turns{base, with(noisy, func(t *Turns) { t.Rates = spread(100, 0.6, 1.3, 0.65, 1.35, 1, 1) })}, 0, 0, ""},
		{"without a base", []Turns{base, quiet(930, 0.0020)}, -1, 1, ""},
		{"one round, base the slower", []Turns{one(500), one(900)}, 0, 0, "fewer than 3 rounds"},
		{"one round, base the faster", []Turns{one(900), one(500)}, 0, 0, "fewer than 3 rounds"},
		{"one round, alone", []Turns{one(900)}, -1, 0, "fewer than 3 rounds"},
	} {
		winner, why := Verdict(test.all, test.base)
		if test.why == "" && (why != "" || winner != test.winner) || !strings.Contains(why, test.why) {
			t.Errorf("%s: %d, %q; want %d, %q", test.name, winner, why, test.winner, test.why)
		}
	}
}
