package strategy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pipefs/pipefs/bench/views"
	"github.com/pipefs/pipefs/transcode"
)

// A Split is one of package views, which has their names.
type Split = views.Split

// The names of splits that are not named after a step.
const (
	Unprocessed = views.Unprocessed
	Packed      = views.Packed
	Decoded     = views.Decoded
)

// WithGrey returns p with the step grey before its last step, and after it. This is
// PRESTO's example (section 4.6) of where to put a step that makes samples smaller. It
// returns the pipelines that are possible, and an error about the others.
func WithGrey(r *transcode.Registry, p transcode.Pipeline) ([]transcode.Pipeline, error) {
	var words []string
	for _, s := range views.Work(p) {
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
		grey, err := views.ParsePipeline(r, strings.Join(slices.Insert(slices.Clone(words), at, "grey"), "-"))
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
