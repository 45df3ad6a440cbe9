package text

import (
	"fmt"
	"io"
	"math"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/pipefs/pipefs/bench/tune"
	"github.com/pipefs/pipefs/internal/human"
	"github.com/pipefs/pipefs/internal/terminal"
	"github.com/pipefs/pipefs/mixer"
	"github.com/pipefs/pipefs/transcode"
)

// Tuning prints what tune has found.
func Tuning(w io.Writer, r *tune.Report) {
	for _, p := range r.Pairs {
		fmt.Fprintf(w, "%s/, a mix of raw pixels and %s. One sample takes %s to load as raw pixels, %s to load encoded, %s to decode.\n",
			p.View, namedPair(&p), formatMillis(p.Costs.LoadRaw), formatMillis(p.Costs.LoadEncoded), formatMillis(p.Costs.Decode))
		t := terminal.Table(w, "materialized", "on disk", "loading/s", "decoding/s", "predicted/s", "measured/s", "CPU a sample")
		for i := range p.Rows {
			row := &p.Rows[i]
			measured, cpu := "", ""
			if len(row.Rates) > 0 {
				measured, cpu = formatRate(row.Rate()), formatMillis(row.CPU)
				if i == p.Best {
					measured += " *"
				}
			}
			t.AppendRow(table.Row{fmt.Sprintf("%.0f %%", 100*row.Share), human.Size(int64(row.Share * float64(r.Materialized))),
				formatRate(row.Load), formatRate(row.Decode), formatRate(row.Predicted()), measured, cpu})
		}
		terminal.Right(t, 2, 3, 4, 5, 6, 7)
		t.Render()
		if p.Most < mixer.Ratios-1 {
			fmt.Fprintf(w, "The disk has room for no more than %d %% materialized.\n", 10*p.Most)
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintf(w, "Views compared, in samples/s. The page cache has room for %s; tune relies on half of it.\n", human.Size(r.Memory))
	t := terminal.Table(w, "view", "materialized", "bytes", "first epoch", "later epochs", "CPU a sample, first")
	for i := range r.Views {
		row := &r.Views[i]
		mark, mix := "", ""
		if i == r.Winner {
			mark = " *"
		}
		if row.Encoded != "" {
			mix = fmt.Sprintf("%.0f %%, the others from %s", 100*row.Share, named(row.Encoded))
		}
		first, later := formatRate(row.Rate()), "as the first"
		if row.Fits {
			later = formatRate(row.LaterRate()) + mark
		} else {
			first += mark
		}
		t.AppendRow(table.Row{row.View, mix, human.Size(row.Bytes), first, later, formatMillis(row.CPU)})
	}
	terminal.Right(t, 2, 3, 4, 5, 6)
	t.Render()
	if r.Assumed != "" {
		fmt.Fprintln(w, terminal.Wrap("assumed: "+r.Assumed, 0))
	}
	if r.Rebuilt != "" {
		fmt.Fprintln(w, terminal.Wrap(r.Rebuilt, 0))
	}
	fmt.Fprintln(w, tuningVerdict(r))
	fmt.Fprintln(w, terminal.Wrap("tune does not compare random views, since a training changes three lines for them. To compare one and its view for validation: pipefs bench --views "+randomPair, 0))
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

func formatMillis(seconds float64) string { return fmt.Sprintf("%.2f ms", 1000*seconds) }

func formatRate(r float64) string {
	switch {
	case math.IsInf(r, 1):
		return "∞"
	case r < 100:
		return fmt.Sprintf("%.1f", r)
	}
	return fmt.Sprintf("%.0f", r)
}
