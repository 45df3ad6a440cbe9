package report

import (
	"fmt"
	"math"

	"github.com/pipefs/pipefs/bench/tune"
	"github.com/pipefs/pipefs/internal/human"
	"github.com/pipefs/pipefs/mixer"
	"github.com/pipefs/pipefs/transcode"
)

// OfTuning is the document of what tune has found.
func OfTuning(r *tune.Report) *Document {
	var f facts
	f.add("Samples", human.Count(r.Samples))
	f.add("Rounds", human.Count(r.Rounds)+" of the comparison")
	f.add("Page cache", "about "+human.Size(r.Memory)+"; tune relies on half of it")
	f.add("Assumed", r.Assumed)
	f.add("Rebuilt", r.Rebuilt)
	f.addOthers(r.Others)
	d := &Document{Advice: []Advice{{Says: tuningVerdict(r)}}, Facts: f}
	strong := func(winner int) func(int, *tune.Row) Row {
		return func(i int, _ *tune.Row) Row { return Row{Strong: i == winner} }
	}
	number := func(v float64) Cell {
		if math.IsInf(v, 1) {
			return Cell{Text: "∞"}
		}
		return amount(v, Number)
	}
	d.Sections = append(d.Sections, Section{Title: "Views compared, in samples/s: medians and their intervals", Table: tableOf(r.Views, strong(r.Winner),
		column[tune.Row]{Head{Name: "View", Words: true}, func(row *tune.Row) Cell { return words(row.View) }},
		column[tune.Row]{Head{Name: "Materialized", Words: true}, func(row *tune.Row) Cell {
			if row.Encoded == "" {
				return Cell{Text: none}
			}
			return Cell{Text: fmt.Sprintf("%.0f %%, the others from %s", 100*row.Share, named(row.Encoded))}
		}},
		column[tune.Row]{Head{Name: "Bytes"}, func(row *tune.Row) Cell { return amount(row.Bytes, human.Size) }},
		column[tune.Row]{Head{Name: "First epoch"}, func(row *tune.Row) Cell { c := measured(row.Rates); c.Strong = !row.Fits; return c }},
		column[tune.Row]{Head{Name: "Later epochs"}, func(row *tune.Row) Cell {
			if !row.Fits {
				return Cell{Text: "as the first"}
			}
			c := measured(row.Later)
			c.Strong = true
			return c
		}},
		column[tune.Row]{Head{Name: "CPU", Unit: "ms"}, func(row *tune.Row) Cell { return amount(row.CPU, Milliseconds) }},
	)})
	for i := range r.Pairs {
		p := &r.Pairs[i]
		s := Section{Title: fmt.Sprintf("%s/, a mix of raw pixels and %s; rates in samples/s", p.View, namedPair(p)), Table: tableOf(p.Rows, strong(p.Best),
			column[tune.Row]{Head{Name: "Materialized"}, func(row *tune.Row) Cell { return Cell{Text: fmt.Sprintf("%.0f %%", 100*row.Share)} }},
			column[tune.Row]{Head{Name: "On disk"}, func(row *tune.Row) Cell { return Cell{Text: human.Size(int64(row.Share * float64(r.Materialized)))} }},
			column[tune.Row]{Head{Name: "Loading"}, func(row *tune.Row) Cell { return number(row.Load) }},
			column[tune.Row]{Head{Name: "Decoding"}, func(row *tune.Row) Cell { return number(row.Decode) }},
			column[tune.Row]{Head{Name: "Predicted"}, func(row *tune.Row) Cell { return number(row.Predicted()) }},
			column[tune.Row]{Head{Name: "Measured"}, func(row *tune.Row) Cell { c := number(row.Rate()); c.Strong = true; return c }},
			column[tune.Row]{Head{Name: "CPU", Unit: "ms"}, func(row *tune.Row) Cell { return amount(row.CPU, Milliseconds) }},
		), Notes: []string{fmt.Sprintf("One sample takes %s ms to load as raw pixels, %s ms to load encoded, %s ms to decode.",
			Milliseconds(p.Costs.LoadRaw), Milliseconds(p.Costs.LoadEncoded), Milliseconds(p.Costs.Decode))}}
		if p.Most < mixer.Ratios-1 {
			s.Notes = append(s.Notes, fmt.Sprintf("The disk has space for no more than %d %% materialized.", 10*p.Most))
		}
		d.Sections = append(d.Sections, s)
	}
	d.Notes = []string{"tune does not compare random views, since a training changes three lines for them. To compare one and its view for validation: pipefs bench --views " + randomPair}
	return d
}

// randomPair are the usual views for training and validation that need no transforms.
const randomPair = "rrc224-hflip-npy,resize256-crop224-npy"

// TuningNoise says why there is no winner, and what to do.
func TuningNoise(r *tune.Report) string {
	return fmt.Sprintf("too noisy to tell: %s; run again with --rounds %d, or when the machine is quiet", r.Noise, max(12, 4*r.Rounds))
}

// tuningVerdict says what won, and by how much.
func tuningVerdict(r *tune.Report) string {
	if r.Winner < 0 {
		return "T" + TuningNoise(r)[1:] + "."
	}
	won := r.Views[r.Winner]
	if won.View == transcode.Original {
		return "No view is faster than the originals here: storing one gains nothing."
	}
	epochs := ""
	if won.Fits {
		epochs = " from the second epoch on"
	}
	s := fmt.Sprintf("%s/ is the fastest%s (the store does not have the originals)", won.View, epochs)
	if gain := r.Gain(); gain > 0 {
		s = fmt.Sprintf("%s/ is %.2f times as fast as original/%s", won.View, gain, epochs)
	}
	if won.Encoded != "" {
		s += fmt.Sprintf(", and takes %s on disk", human.Size(int64(won.Share*float64(r.Materialized))))
		if won.Encoded == "l3" {
			s += " beside L3 of all samples"
		}
	}
	return s + "."
}

// namedPair is what is mixed with raw pixels, in words.
func namedPair(p *tune.Pair) string {
	by := "the mount"
	if p.ByLoader() {
		by = "the loader"
	}
	return named(p.Encoded) + ", decoded by " + by
}

// named is an encoded representation in words.
func named(encoded string) string {
	if encoded == "source" {
		return "the stored files"
	}
	return "L3"
}
