package strategy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pipefs/pipefs/transcode"
)

// The names of splits that are not named after a step.
const (
	Unprocessed = "unprocessed"
	Packed      = "packed"
	Decoded     = "decoded"
)

// Split is a place where a pipeline can be split.
type Split struct {
	// Name is Unprocessed, Packed, Decoded, or the last step of the prefix.
	Name string `json:"name"`
	// Steps is how many steps of the pipeline the prefix has, an implied decode
	// included.
	Steps int `json:"steps"`
	// Stored: the results of the prefix are stored. False only for Unprocessed.
	Stored bool `json:"stored"`
	// View is the view whose files hold what is stored; empty where there is none.
	View string `json:"view,omitempty"`
	// InPack: packing alone gives a store this view.
	InPack bool `json:"in_pack,omitempty"`
	// Rest are the steps at each read.
	Rest []string `json:"rest,omitempty"`
}

// Parse reads the spec of a pipeline. Unlike a view it may end in pixels:
// `resize256-center` is read as resize256-center-npy. The last step, which only writes
// the array down, is never run here.
func Parse(r *transcode.Registry, spec string) (transcode.Pipeline, error) {
	p, err := r.Parse(spec)
	if p.Stored() {
		return p, &transcode.SpecError{Spec: spec, Word: transcode.Stored, Reason: "what is stored is what is to be found out", Hint: "write " + p.Whole().String()}
	}
	if whole := p.Whole(); whole.String() != p.String() {
		return p, &transcode.SpecError{Spec: spec, Word: transcode.Own, Offset: len(whole.String()) + 1, Reason: "names make no difference here", Hint: "write " + whole.String()}
	}
	if bad := (*transcode.SpecError)(nil); errors.As(err, &bad) && bad.Word == "" {
		if array, e := r.Parse(spec + "-npy"); e == nil {
			return array, nil
		}
	}
	return p, err
}

// work is the steps of p that are run: all but a last npy.
func work(p transcode.Pipeline) []transcode.Step {
	steps := p.Steps()
	if n := len(steps); n > 0 && steps[n-1].Kind.Format == transcode.NPY {
		steps = steps[:n-1]
	}
	return steps
}

// Splits lists the splits of a pipeline, in the order of its steps.
func Splits(r *transcode.Registry, p transcode.Pipeline) []Split {
	steps := work(p)
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

// WithGrey returns p with the step grey before its last step, and after it. This is
// PRESTO's example (section 4.6) of where to put a step that makes samples smaller. It
// returns the pipelines that are possible, and an error about the others.
func WithGrey(r *transcode.Registry, p transcode.Pipeline) ([]transcode.Pipeline, error) {
	var words []string
	for _, s := range work(p) {
		if s.String() != "decode" {
			words = append(words, s.String())
		}
	}
	if len(words) == 0 {
		return nil, fmt.Errorf("view %q has no step that grey could stand before or after", p)
	}
	var pipelines []transcode.Pipeline
	var errs []error
	for _, at := range []int{len(words) - 1, len(words)} {
		grey, err := Parse(r, strings.Join(slices.Insert(slices.Clone(words), at, "grey"), "-"))
		if err != nil {
			errs = append(errs, err)
			continue
		}
		pipelines = append(pipelines, grey)
	}
	return pipelines, errors.Join(errs...)
}

// sample is a file of the dataset, and what the pipeline is for it.
type sample struct {
	name  string // path of the file
	bytes int64  // of the file
	info  transcode.Info
	role  transcode.Role
	steps []transcode.Applied
	// bodies are the sizes of its records, by split, and result that of what the
	// whole pipeline makes of it.
	bodies []int64
	result int64
}

// start is the shape of a file.
func start(info transcode.Info, role transcode.Role) transcode.Shape {
	return transcode.Shape{Info: info, Stage: transcode.Source, Mask: role == transcode.Mask}
}

// shape is that of what the first n steps of the pipeline make.
func (s *sample) shape(n int) transcode.Shape {
	shape := start(s.info, s.role)
	for _, step := range s.steps {
		if step.At < n {
			shape = step.Out
		}
	}
	return shape
}

// run applies the steps of the pipeline from one on, up to and without another.
func (s *sample) run(ctx context.Context, lim transcode.Limits, at transcode.Payload, from, to int) (transcode.Payload, error) {
	for _, step := range s.steps {
		if step.At < from || step.At >= to {
			continue
		}
		if err := ctx.Err(); err != nil {
			return at, err
		}
		out, err := step.Kind.Apply(ctx, at, transcode.Call{Step: step.Step, Nearest: step.Nearest, Limits: lim})
		if err != nil {
			return at, err
		}
		out.Shape = step.Out
		at = out
	}
	return at, nil
}

// applied is how many of the first n steps apply, or are replaced by another step.
func (s *sample) applied(n int) (count int) {
	last := -1
	for _, step := range s.steps {
		if step.At < n && step.At != last {
			count++
		}
		last = step.At
	}
	return count
}

// size is the number of bytes that a payload has for whoever uses it.
func size(p transcode.Payload) int64 {
	if p.Pixels != nil {
		return int64(len(p.Pixels.Pix) + len(p.Pixels.Palette))
	}
	return int64(len(p.Bytes))
}
