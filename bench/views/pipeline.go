package views

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pipefs/pipefs/internal/human"
	"github.com/pipefs/pipefs/transcode"
)

// The names of splits that are not named after a step.
const (
	Unprocessed = "unprocessed"
	Packed      = "packed"
	Decoded     = "decoded"
)

// Split is a place where a pipeline can be cut: the results of the steps before it are
// stored, the others run at each read. PRESTO (SIGMOD 2022) calls it a strategy.
type Split struct {
	// Name is Unprocessed, Packed, Decoded, or the last step whose result is stored.
	Name string `json:"name"`
	// Steps is how many steps of the pipeline are stored, an implied decode included.
	Steps int `json:"steps"`
	// Stored is false for Unprocessed alone.
	Stored bool `json:"stored"`
	// View is the view whose files hold what is stored; empty where there is none.
	View string `json:"view,omitempty"`
	// InPack: packing alone gives a store this view.
	InPack bool `json:"in_pack,omitempty"`
	// Rest are the steps at each read.
	Rest []string `json:"rest,omitempty"`
}

// ParsePipeline reads the spec of a pipeline. Unlike a view it may end in pixels:
// `resize256-center` is read as resize256-center-npy.
func ParsePipeline(r *transcode.Registry, spec string) (transcode.Pipeline, error) {
	p, err := r.Parse(spec)
	if p.Stored() {
		return p, &transcode.SpecError{Spec: spec, Word: transcode.Stored, Reason: "what is stored is what is to be found out", Hint: "write " + p.Whole().String()}
	}
	if whole := p.Whole(); whole.String() != p.String() {
		return p, &transcode.SpecError{Spec: spec, Word: transcode.Own, Offset: len(whole.String()) + 1, Reason: "names make no difference here", Hint: "write " + whole.String()}
	}
	if bad := (*transcode.SpecError)(nil); errors.As(err, &bad) && bad.Word == "" {
		if array, e := r.Parse(spec + "-npy"); e == nil {
			p, err = array, nil
		}
	}
	if err == nil && len(Work(p)) == 0 {
		err = fmt.Errorf("view %q has no steps: there is nothing to split; name a pipeline such as resize256-center", p)
	}
	return p, err
}

// Work is the steps of p that compute something: all but a last npy.
func Work(p transcode.Pipeline) []transcode.Step {
	steps := p.Steps()
	if n := len(steps); n > 0 && steps[n-1].Kind.Format == transcode.NPY {
		steps = steps[:n-1]
	}
	return steps
}

// Splits lists the splits of a pipeline, in the order of its steps.
func Splits(r *transcode.Registry, p transcode.Pipeline) []Split {
	steps := Work(p)
	names := make([]string, len(steps))
	for i, s := range steps {
		names[i] = s.String()
	}
	splits := []Split{
		{Name: Unprocessed, View: transcode.Original, Rest: names},
		{Name: Packed, Stored: true, View: transcode.Original, InPack: true, Rest: names},
	}
	for i, name := range names {
		if steps[i].Kind.To == transcode.Picture && name == "decode" {
			name = Decoded
		}
		splits = append(splits, Split{
			Name: name, Steps: i + 1, Stored: true, View: viewOf(r, p.Prefix(i+1)),
			InPack: i == 0 && steps[0].Kind.Split != nil, Rest: names[i+1:],
		})
	}
	return splits
}

// viewOf is the view whose files hold what a prefix makes.
func viewOf(r *transcode.Registry, prefix transcode.Pipeline) string {
	spec, decoded := strings.CutSuffix(prefix.String(), "decode")
	if !decoded {
		spec += "-"
	}
	// bmp is for whatever reads pictures; npy holds what bmp cannot.
	for _, spec := range []string{prefix.String(), spec + "bmp", spec + "npy"} {
		if _, err := r.Parse(spec); err == nil {
			return spec
		}
	}
	return ""
}

// commands are what stores a split.
func (s *Split) commands(dataset, store string) [][]string {
	pack := []string{"pack", dataset, store}
	switch {
	case s.Name == Packed:
		return [][]string{append(pack, "--originals", "keep")}
	case s.InPack:
		return [][]string{pack}
	}
	return [][]string{pack, {"materialize", store, s.View}}
}

// splits are the subjects of a pipeline: the same view, of stores that hold what is
// between. Splits that no view holds are left out.
func (r *runner) splits(p transcode.Pipeline) {
	for _, split := range Splits(r.Registry, p) {
		if split.View == "" {
			continue
		}
		s := &subject{Row: Row{View: split.Name, Path: p.String(), Split: &split}, source: r.Source}
		if split.Stored {
			s.source = filepath.Join(r.stores(), fmt.Sprint(len(r.subjects)))
		}
		r.subjects = append(r.subjects, s)
	}
}

// stores is where those of splits lie.
func (r *runner) stores() string { return filepath.Join(r.Work, "stores") }

// store makes the stores of splits, of the samples that are measured.
func (r *runner) store(ctx context.Context) error {
	tree := filepath.Join(r.stores(), "tree")
	for _, name := range r.files {
		to := filepath.Join(tree, name)
		if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
			return err
		}
		from, err := filepath.Abs(filepath.Join(r.Plain, name))
		if err == nil {
			err = os.Symlink(from, to)
		}
		if err != nil {
			return err
		}
	}
	for _, s := range r.subjects {
		if s.Split == nil || !s.Split.Stored {
			continue
		}
		r.tell("storing " + s.View)
		if err := forget(r.Plain, r.files); err != nil {
			return err
		}
		began := time.Now()
		for _, args := range s.Split.commands(tree, s.source) {
			if args[0] == "materialize" {
				args = append(args, r.Roles...)
			}
			if err := Pipefs(ctx, r.Program, args...); err != nil {
				return fmt.Errorf("storing %s: %w", s.View, err)
			}
		}
		share := float64(len(r.Files)) / float64(len(r.files))
		s.Offline = time.Since(began).Seconds() * share
		size, err := sizeOf(s.source)
		if err != nil {
			return err
		}
		s.stored = []float64{float64(size) / float64(len(r.files))}
	}
	return os.RemoveAll(tree) // stores read what they hold
}

// adviseSplit says which split to take.
func (r *Report) adviseSplit(again string) {
	a := &r.Advice
	a.Base = slices.IndexFunc(r.Rows, func(row Row) bool { return row.Split != nil && !row.Split.Stored && len(row.Lasting()) > 0 })
	r.doubt()
	var turns []Turns
	var rows []int
	base := -1
	for i := range r.Rows {
		if row := &r.Rows[i]; row.Error == "" && len(row.Lasting()) > 0 {
			if i == a.Base {
				base = len(rows)
			}
			rows, turns = append(rows, i), append(turns, r.turns(i))
		}
	}
	if len(rows) == 0 {
		return
	}
	won, why := Verdict(turns, base)
	switch {
	case why != "":
		a.Lines = []string{noisy("Pipeline", why, again)}
		return
	case won == base:
		a.Lines = []string{"Pipeline: nothing is worth storing: read the files as they are, and run all steps at each read."}
		return
	}
	a.Same = rows[won]
	row := &r.Rows[a.Same]
	what := "store the result of " + row.View
	switch row.View {
	case Packed:
		what = "store the files one after another"
	case Decoded:
		what = "store the pixels"
	}
	if len(row.Split.Rest) > 0 {
		what += " and do " + strings.Join(row.Split.Rest, ", ") + " at each read"
	}
	gain := ""
	if a.Base >= 0 {
		gain = fmt.Sprintf(": %s the files as they are%s", times(r.Gain(row)), row.when())
	}
	a.Lines = []string{fmt.Sprintf("Pipeline: %s%s, for %s of disk space.", what, gain, human.Size(row.StoredBytes*int64(r.Samples)))}
	for _, args := range append(row.Split.commands("DATASET", "STORE"), []string{"mount", "STORE", "MNT"}) {
		a.Lines = append(a.Lines, "  pipefs "+strings.Join(args, " "))
	}
	a.Lines = append(a.Lines, "  and read MNT/"+row.Path)
}
