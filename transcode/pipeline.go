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

// Step is a kind with its argument attached.
type Step struct {
	Kind *Kind
	Arg  int // 0 where the kind takes none
}

func (s Step) String() string {
	if s.Kind.Max == 0 {
		return s.Kind.Name
	}
	return s.Kind.Name + strconv.Itoa(s.Arg)
}

// Pipeline is a sequence of steps, `decode` included. The zero value is the
// pipeline that changes nothing.
type Pipeline struct {
	steps  []Step
	spec   string
	stored bool
	own    bool
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
	return Pipeline{steps: p.steps, spec: p.spec + "-" + Own, own: true}
}

// Whole is the pipeline of the steps alone: for every sample, materialized or not, and under
// the names that the steps give.
func (p Pipeline) Whole() Pipeline { return newPipeline(p.steps) }

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

// SpecError says what is wrong with a view's spec, and where.
type SpecError struct {
	Spec   string
	Word   string // the word at fault; empty when the end is
	Offset int    // of the word, in bytes
	Reason string
	Hint   string // what to write instead; may be empty
}

func (e *SpecError) Error() string {
	msg := fmt.Sprintf("view %q: %s", e.Spec, e.Reason)
	if e.Hint != "" {
		msg += " (" + e.Hint + ")"
	}
	return msg
}

// Pointer draws the spec with carets under the word at fault, two lines.
func (e *SpecError) Pointer() string {
	return e.Spec + "\n" + strings.Repeat(" ", e.Offset) + strings.Repeat("^", max(1, len(e.Word)))
}

// Parse reads a view's spec. There is exactly one spelling of each view, since
// two names would be cached twice; the error of any other names the right one.
func (r *Registry) Parse(spec string) (Pipeline, error) {
	if spec == Original {
		return Pipeline{}, nil
	}
	p := parser{registry: r, spec: spec, stage: Source}
	if strings.HasPrefix(spec, Stored+"-") {
		p.begin = len(Stored) + 1
	}
	steps, own := strings.CutSuffix(spec[p.begin:], "-"+Own)
	p.stop = p.begin + len(steps)
	if own && steps == Original {
		return p.own(Pipeline{})
	}
	for offset := p.begin; ; {
		word, rest, more := strings.Cut(spec[offset:p.stop], "-")
		if err := p.word(word, offset); err != nil {
			return Pipeline{}, err
		}
		if !more {
			break
		}
		offset = p.stop - len(rest)
	}
	if err := p.end(); err != nil {
		return Pipeline{}, err
	}
	whole := newPipeline(p.steps)
	if own {
		return p.own(whole)
	}
	if p.begin > 0 {
		return whole.OfStored(), nil
	}
	return whole, nil
}

type parser struct {
	registry *Registry
	spec     string
	begin    int // of the steps, behind the word stored
	stop     int // of the steps, before the word own
	steps    []Step
	stage    Stage
}

func (p *parser) fail(word string, offset int, reason, hint string) error {
	return &SpecError{Spec: p.spec, Word: word, Offset: offset, Reason: reason, Hint: hint}
}

func (p *parser) word(word string, offset int) error {
	step, reason, hint := p.registry.step(word)
	if reason != "" {
		return p.fail(word, offset, reason, hint)
	}
	kind := step.Kind
	for _, before := range p.steps {
		if before.Kind == kind {
			return p.fail(word, offset, fmt.Sprintf("%s stands twice", kind.Name), "")
		}
	}
	if p.stage == Source && kind.From&Source == 0 {
		p.steps = append(p.steps, Step{Kind: p.registry.decode})
		p.stage = Picture
	}
	if kind.From&p.stage == 0 {
		last := p.steps[len(p.steps)-1]
		return p.fail(word, offset, fmt.Sprintf("%s cannot follow %s", word, last), p.follow(step, last))
	}
	p.steps = append(p.steps, step)
	if kind.To != 0 {
		p.stage = kind.To
	}
	return nil
}

// own is the pipeline with the names of the dataset, where the word makes a difference.
func (p *parser) own(whole Pipeline) (Pipeline, error) {
	fail := func(what string, write Pipeline) (Pipeline, error) {
		return Pipeline{}, p.fail(Own, p.stop+1, what+" has the files' own names already", "write "+write.String())
	}
	switch {
	case p.begin > 0:
		return fail("a view of what is stored", whole.OfStored())
	case whole.OwnNames():
		return fail(whole.String(), whole)
	}
	return whole.WithOwnNames(), nil
}

// follow advises on a step that came too late.
func (p *parser) follow(step, last Step) string {
	switch {
	case p.stage == File:
		return fmt.Sprintf("%s ends a view", last)
	case step.Kind.To == File:
		return fmt.Sprintf("after %s only npy can be written", last)
	default:
		return fmt.Sprintf("write %s before %s", step, last)
	}
}

func (p *parser) end() error {
	last := p.steps[len(p.steps)-1]
	if p.stage&(Source|File) == 0 {
		return p.fail("", p.stop, fmt.Sprintf("%s gives pixels, and a view is made of files", last),
			fmt.Sprintf("end it with one of %s", strings.Join(p.registry.encoders(p.stage), ", ")))
	}
	// A complete set of parts is the source itself to every step that follows.
	if first := p.steps[0]; first.Kind.Split != nil && first.Arg == first.Kind.Max && len(p.steps) > 1 {
		rest := newPipeline(p.steps[1:])
		return p.fail(first.String(), p.begin, fmt.Sprintf("%s changes nothing of what follows", first), fmt.Sprintf("write %s%s%s", p.spec[:p.begin], rest, p.spec[p.stop:]))
	}
	return nil
}

// step reads one word. A non-empty reason says why it is none.
func (r *Registry) step(word string) (step Step, reason, hint string) {
	name := strings.TrimRight(word, "0123456789")
	digits := word[len(name):]
	kind := r.kinds[word]
	if kind == nil || kind.Max != 0 {
		kind = r.kinds[name]
	} else {
		digits = ""
	}
	switch {
	case word == "":
		return step, "an empty word", "words are joined by one hyphen"
	case word == decodeName:
		return step, "decode is implied", "leave it out"
	case word == Original:
		return step, "original stands alone", "leave it out"
	case word == Stored:
		return step, "stored stands once, before the steps of a view", "for example stored-bmp"
	case word == Own:
		return step, "own stands once, behind the steps of a view", "for example bmp-own"
	case kind == nil:
		return step, fmt.Sprintf("unknown step %q", word), r.suggest(name, digits)
	case kind.Max == 0 && digits != "":
		return step, fmt.Sprintf("%s takes no number", name), "write " + name
	case kind.Max == 0:
		return Step{Kind: kind}, "", ""
	case digits == "":
		return step, fmt.Sprintf("%s needs a number from %d to %d", name, kind.Min, kind.Max), fmt.Sprintf("for example %s%d", name, r.example(kind))
	}
	arg, err := strconv.Atoi(digits)
	if err != nil || arg < kind.Min || arg > kind.Max {
		return step, fmt.Sprintf("%s takes a number from %d to %d, not %s", name, kind.Min, kind.Max, digits), ""
	}
	if strconv.Itoa(arg) != digits {
		return step, fmt.Sprintf("%q has a leading zero", word), fmt.Sprintf("write %s%d", name, arg)
	}
	return Step{Kind: kind, Arg: arg}, "", ""
}
