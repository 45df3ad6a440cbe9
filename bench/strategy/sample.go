package strategy

import (
	"context"
	"slices"
	"strings"

	"github.com/pipefs/pipefs/transcode"
)

// sample is a file of the dataset, and what the pipeline is for it.
type sample struct {
	name  string // path of the file
	bytes int64  // of the file
	info  transcode.Info
	role  transcode.Role
	steps []placed
	// bodies are the sizes of its records, by split, and result that of what the
	// whole pipeline makes of it.
	bodies []int64
	result int64
}

// placed is a step that applies to a sample.
type placed struct {
	transcode.Step
	at      int // in the pipeline
	nearest bool
	out     transcode.Shape
}

// fit decides which steps apply to a sample, as the plan of its view has it.
func fit(r *transcode.Registry, p transcode.Pipeline, info transcode.Info, role transcode.Role) ([]placed, error) {
	plan := r.Plan(p, info, role)
	if plan.Unchanged() {
		return nil, nil
	}
	shape := start(info, role)
	var steps []placed
	// A plan tells its steps in its key: those that apply, ~ for nearest neighbours.
	// That of a step that can be split alone has no argument.
	spec, _, _ := strings.Cut(plan.Key(), "@")
	if head, ok := plan.Head(); ok && plan.Len() == 1 {
		spec = head.String()
	}
	next := 0
	for word := range strings.SplitSeq(spec, "-") {
		name, nearest := strings.CutSuffix(word, "~")
		s, ok := find(r, p, next, name)
		if ok {
			s.out, ok = s.Kind.Shape(shape, s.Arg)
		}
		if !ok {
			return nil, transcode.Errorf(transcode.ErrInternal, "step %s of the plan %s is none of %s", word, plan.Key(), p)
		}
		s.nearest, shape, next = nearest, s.out, s.at+1
		steps = append(steps, s)
	}
	return steps, nil
}

// start is the shape of a file.
func start(info transcode.Info, role transcode.Role) transcode.Shape {
	return transcode.Shape{Info: info, Stage: transcode.Source, Mask: role == transcode.Mask}
}

// find finds the step of a plan in the pipeline, from a step of it on.
func find(r *transcode.Registry, p transcode.Pipeline, from int, name string) (placed, bool) {
	all := p.Steps()
	for i := from; i < len(all); i++ {
		if all[i].String() == name {
			return placed{Step: all[i], at: i}, true
		}
	}
	// A decoding that does not apply, as to a smaller size, leaves plain decoding in
	// its place.
	stands := func(s transcode.Step) bool { return s.Kind.To == transcode.Picture }
	kinds := r.Kinds()
	i := slices.IndexFunc(all[min(from, len(all)):], stands)
	k := slices.IndexFunc(kinds, func(k *transcode.Kind) bool { return k.Name == name })
	if i < 0 || k < 0 || !stands(transcode.Step{Kind: kinds[k]}) {
		return placed{}, false
	}
	return placed{Step: transcode.Step{Kind: kinds[k]}, at: from + i}, true
}

// shape is that of what the first n steps of the pipeline make.
func (s *sample) shape(n int) transcode.Shape {
	shape := start(s.info, s.role)
	for _, step := range s.steps {
		if step.at < n {
			shape = step.out
		}
	}
	return shape
}

// run applies the steps of the pipeline from one on, up to and without another.
func (s *sample) run(ctx context.Context, lim transcode.Limits, at transcode.Payload, from, to int) (transcode.Payload, error) {
	for _, step := range s.steps {
		if step.at < from || step.at >= to {
			continue
		}
		if err := ctx.Err(); err != nil {
			return at, err
		}
		out, err := step.Kind.Apply(ctx, at, transcode.Call{Arg: step.Arg, Nearest: step.nearest, Limits: lim})
		if err != nil {
			return at, err
		}
		out.Shape = step.out
		at = out
	}
	return at, nil
}

// applied is how many of the first n steps apply.
func (s *sample) applied(n int) (count int) {
	for _, step := range s.steps {
		if step.at < n {
			count++
		}
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
