package transcode

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Original is the name of the view that changes nothing: the empty pipeline.
const Original = "original"

// Stored is the word that a view of mixed files begins with: stored-bmp shows the samples
// that a store has materialized as bmp in that form, and every other sample as it is, all
// under their own names. The pipeline does not know which samples those are; its [Plan] is
// that of a materialized sample.
const Stored = "stored"

// Own is the word that a view of own names ends with: bmp-own shows the files of bmp
// under the names that they have in the dataset.
const Own = "own"

// Step is a kind with its argument and words attached.
type Step struct {
	Kind  *Kind
	Arg   int             // 0 where the kind takes none
	More  [MaxWords]int   // in the order of Kind.More
	Words [MaxWords]Range // in the order of Kind.Words
}

func (s Step) String() string {
	text := s.Kind.Name
	if s.Kind.Max != 0 {
		text += strconv.Itoa(s.Arg)
	}
	for i := range s.Kind.More {
		text += "_" + strconv.Itoa(s.More[i])
	}
	for i, w := range s.Kind.Words {
		if r := s.Words[i]; r.Given {
			text += w.text(r)
		}
	}
	return text
}

// text is the word as it is attached.
func (w Word) text(r Range) string {
	switch {
	case w.Max == 0:
		return w.Name
	case w.Single:
		return w.Name + strconv.Itoa(r.From)
	}
	return fmt.Sprintf("%s%dto%d", w.Name, r.From, r.To)
}

// Pipeline is a sequence of steps, `decode` included. The zero value is the
// pipeline that changes nothing.
type Pipeline struct {
	steps  []Step
	spec   string
	stored bool
	own    bool
	draw   draw
}

// String is the canonical spec: the only spelling under which a view exists.
func (p Pipeline) String() string {
	if p.spec == "" {
		return Original
	}
	return p.spec
}

// Stored reports whether only materialized samples are shown as the steps make them,
// and all others unchanged.
func (p Pipeline) Stored() bool { return p.stored }

// OwnNames reports whether every file is listed under the name that it has in the
// dataset.
func (p Pipeline) OwnNames() bool { return p.own || p.stored || !p.renames() }

// renames reports whether the steps give a file another extension.
func (p Pipeline) renames() bool {
	return len(p.steps) > 0 && p.steps[len(p.steps)-1].Kind.Ext != ""
}

// WithOwnNames is the pipeline with the names of the dataset; p itself where it has
// them.
func (p Pipeline) WithOwnNames() Pipeline {
	if p.OwnNames() {
		return p
	}
	return Pipeline{steps: p.steps, spec: p.spec + "-" + Own, own: true, draw: p.draw}
}

// Whole is the pipeline of the steps alone: for every sample, materialized or not, and under
// the names that the steps give.
func (p Pipeline) Whole() Pipeline {
	whole := newPipeline(p.steps)
	whole.draw = p.draw
	return whole
}

// OfStored is the pipeline for samples that are materialized.
func (p Pipeline) OfStored() Pipeline {
	if p.stored || len(p.steps) == 0 {
		return p
	}
	whole := p.Whole()
	return Pipeline{steps: p.steps, spec: Stored + "-" + whole.spec, stored: true}
}

// Steps returns the steps in order; the caller must not change them.
func (p Pipeline) Steps() []Step { return p.steps }

// Blends reports whether there are samples whose values p mixes or replaces.
func (p Pipeline) Blends() bool {
	return slices.ContainsFunc(p.steps, func(s Step) bool { return s.Kind.blends() })
}

// DropsOrientation reports whether p writes pictures that have an EXIF orientation without it, and
// does not turn them: files of raw samples have no metadata.
func (p Pipeline) DropsOrientation() bool {
	return len(p.steps) > 0 && p.steps[len(p.steps)-1].Kind.Frame != nil &&
		!slices.ContainsFunc(p.steps, func(s Step) bool { return s.Kind.Name == "upright" })
}

// Role is what p takes a sample for that is role to its user.
func (p Pipeline) Role(role Role) Role {
	if role == Auto && slices.ContainsFunc(p.steps, func(s Step) bool { return s.Kind.Pictures }) {
		return Image
	}
	return role
}

// OfPictures is p with the step that takes all samples for pictures, right after decoding:
// rgb-rrc224-npy of rrc224-npy. It is p where p decodes nothing, or has that step.
func (r *Registry) OfPictures(p Pipeline) Pipeline {
	at := slices.IndexFunc(p.steps, func(s Step) bool { return s.Kind.To == Picture })
	i := slices.IndexFunc(r.ordered, func(k *Kind) bool { return k.Pictures })
	if at < 0 || i < 0 || p.Role(Auto) == Image {
		return p
	}
	whole := newPipeline(slices.Insert(slices.Clone(p.steps), at+1, Step{Kind: r.ordered[i]}))
	if p.own {
		return whole.WithOwnNames()
	}
	return whole
}

// Len is the number of steps, an implied `decode` included.
func (p Pipeline) Len() int { return len(p.steps) }

// Prefix returns the first n steps.
func (p Pipeline) Prefix(n int) Pipeline { return newPipeline(p.steps[:n]) }

func newPipeline(steps []Step) Pipeline {
	words := make([]string, 0, len(steps))
	for i, s := range steps {
		// decode is implied wherever something follows it
		if s.Kind.Name == decodeName && i+1 < len(steps) {
			continue
		}
		words = append(words, s.String())
	}
	return Pipeline{steps: slices.Clip(steps), spec: strings.Join(words, "-")}
}
