package strategy

import (
	"context"

	"github.com/pipefs/pipefs/transcode"
)

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
