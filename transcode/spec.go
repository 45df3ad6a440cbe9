package transcode

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/xrash/smetrics"
)

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

// Parse reads the spec of a view whose files are the same whenever they are read. There is
// exactly one spelling of each view, since two names would be cached twice; the error of
// any other names the right one.
func (r *Registry) Parse(spec string) (Pipeline, error) {
	p, err := r.ParseRandom(spec)
	if err == nil && p.Random() {
		step := p.steps[p.Fixed()].String()
		err = &SpecError{Spec: spec, Word: step, Offset: strings.Index(spec, step), Reason: step + " draws at random",
			Hint: "a mount has it, as MNT/" + spec + " and MNT/" + DrawDir + "/SEED/EPOCH/" + spec}
	}
	return p, err
}

// ParsePath reads where a mount has a view, as [Pipeline.Path] tells it: a spec, or
// .draw/SEED/EPOCH/SPEC of a view that draws, or .draw/SEED/EPOCH.REPEAT/SPEC.
func (r *Registry) ParsePath(path string) (Pipeline, error) {
	parts := strings.Split(path, "/")
	if len(parts) != 4 || parts[0] != DrawDir {
		return r.ParseRandom(path)
	}
	seed, err := strconv.ParseUint(parts[1], 10, 64)
	epoch, repeat, ok := ParseEpochDir(parts[2])
	if err != nil || !ok {
		return Pipeline{}, &SpecError{Spec: path, Word: parts[1] + "/" + parts[2], Offset: len(DrawDir) + 1, Reason: "a seed and an epoch are numbers; EPOCH.REPEAT has a repeat from 1 on"}
	}
	p, err := r.ParseRandom(parts[3])
	if err == nil && !p.Random() {
		err = &SpecError{Spec: path, Word: parts[3], Offset: len(path) - len(parts[3]), Reason: "it draws nothing", Hint: "write " + p.String()}
	}
	return p.In(seed, epoch).Repeat(repeat), err
}

// ParseRandom is Parse for views that may draw at random.
func (r *Registry) ParseRandom(spec string) (Pipeline, error) {
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
	if err := p.random(last); err != nil {
		return err
	}
	// A complete set of parts is the source itself to every step that follows.
	if first := p.steps[0]; first.Kind.Split != nil && first.Arg == first.Kind.Max && len(p.steps) > 1 {
		rest := newPipeline(p.steps[1:])
		return p.fail(first.String(), p.begin, fmt.Sprintf("%s changes nothing of what follows", first), fmt.Sprintf("write %s%s%s", p.spec[:p.begin], rest, p.spec[p.stop:]))
	}
	return nil
}

// random refuses views that draw and whose files are not all of one size: a file is made
// when it is read, and its size is asked for before.
func (p *parser) random(last Step) error {
	i := slices.IndexFunc(p.steps, func(s Step) bool { return s.Kind.Draw != nil })
	switch {
	case i < 0:
		return nil
	case p.begin > 0:
		return p.fail(p.steps[i].String(), strings.Index(p.spec, p.steps[i].String()), "what is drawn is never stored", "leave out "+Stored)
	case last.Kind.Size == nil || slices.ContainsFunc(p.steps, func(s Step) bool { return s.Kind.To == Tensor }):
		return p.fail(last.String(), strings.LastIndex(p.spec, last.String()), "a view that draws is read as bytes of pixels", "end it with npy, ppm or bmp, and make floats of them in the loader")
	}
	return nil
}

// step reads one word of a spec. A non-empty reason says why it is none.
func (r *Registry) step(word string) (step Step, reason, hint string) {
	if k := r.kinds[word]; k != nil && k.Max == 0 && k != r.decode {
		return Step{Kind: k}, "", ""
	}
	name, digits, more, rest := wordParts(word)
	kind := r.kinds[name]
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
	case kind == nil || rest != "" && kind.Words == nil || len(more) > 0 && kind.More == nil:
		return step, fmt.Sprintf("unknown step %q", word), r.suggest(strings.TrimRight(word, "0123456789"), word[len(strings.TrimRight(word, "0123456789")):])
	case kind.Max == 0 && digits != "":
		return step, fmt.Sprintf("%s takes no number", name), "write " + name
	case kind.Max != 0 && digits == "":
		return step, fmt.Sprintf("%s needs a number from %d to %d", name, kind.Min, kind.Max), "for example " + r.example(kind)
	case len(more) != len(kind.More):
		return step, fmt.Sprintf("%s has %d numbers", name, 1+len(kind.More)), "for example " + r.example(kind)
	}
	step.Kind = kind
	if digits != "" {
		arg, err := strconv.Atoi(digits)
		if err != nil || arg < kind.Min || arg > kind.Max {
			return step, fmt.Sprintf("%s takes a number from %d to %d, not %s", name, kind.Min, kind.Max, digits), ""
		}
		if strconv.Itoa(arg) != digits {
			return step, fmt.Sprintf("%q has a leading zero", word), fmt.Sprintf("write %s%d%s", name, arg, rest)
		}
		step.Arg = arg
		if kind.Odd && arg%2 == 0 {
			return step, fmt.Sprintf("%s takes an odd number, not %d", name, arg), ""
		}
	}
	for i, w := range kind.More {
		n, err := strconv.Atoi(more[i])
		if err != nil || n < w.Min || n > w.Max {
			return step, fmt.Sprintf("%s of %s is a number from %d to %d, not %s", w.Name, name, w.Min, w.Max, more[i]), ""
		}
		step.More[i] = n
	}
	for rest != "" {
		if rest, reason, hint = step.attach(rest); reason != "" {
			return step, reason, hint
		}
	}
	if step.String() != word {
		return step, fmt.Sprintf("%q is spelled in another way", word), "write " + step.String()
	}
	return step, "", ""
}

// wordParts divides a word of a spec: the name of a step, its argument, more numbers, and what
// is attached to it.
func wordParts(word string) (name, digits string, more []string, rest string) {
	m := parts.FindStringSubmatch(word)
	if m == nil {
		return word, "", nil, ""
	}
	if m[3] != "" {
		more = strings.Split(m[3][1:], "_")
	}
	return m[1], m[2], more, m[4]
}

var parts = regexp.MustCompile(`^([a-z]+)([0-9]*)((?:_[0-9]+)*)(.*)$`)

// attach reads the first of the words that are attached to a step, and returns the
// others.
func (s *Step) attach(text string) (rest, reason, hint string) {
	known := make([]string, len(s.Kind.Words))
	for i, w := range s.Kind.Words {
		known[i] = w.text(Range{From: w.Min, To: w.Max})
		after, ok := strings.CutPrefix(text, w.Name)
		if !ok {
			continue
		}
		if s.Words[i].Given {
			return "", fmt.Sprintf("%s stands twice", w.Name), ""
		}
		r := Range{Given: true}
		if w.Single {
			digits := number.FindString(after)
			r.From, _ = strconv.Atoi(digits)
			r.To = r.From
			if digits == "" || r.From < w.Min || r.From > w.Max {
				return "", fmt.Sprintf("%s takes a number from %d to %d", w.Name, w.Min, w.Max), "for example " + known[i]
			}
			after = after[len(digits):]
		} else if w.Max != 0 {
			m := fromTo.FindStringSubmatch(after)
			if m == nil {
				return "", fmt.Sprintf("%s needs two numbers from %d to %d", w.Name, w.Min, w.Max), "for example " + known[i]
			}
			r.From, _ = strconv.Atoi(m[1])
			r.To, _ = strconv.Atoi(m[2])
			if r.From < w.Min || r.To > w.Max || r.From > r.To {
				return "", fmt.Sprintf("%s takes two numbers from %d to %d, the smaller one first, not %s", w.Name, w.Min, w.Max, m[0]), ""
			}
			after = after[len(m[0]):]
		}
		s.Words[i] = r
		return after, "", ""
	}
	return "", fmt.Sprintf("%q is no word of %s", text, s.Kind.Name), "its words are " + strings.Join(known, ", ")
}

var number = regexp.MustCompile(`^[0-9]{1,6}`)

// fromTo is the numbers of an attached word.
var fromTo = regexp.MustCompile(`^([0-9]{1,6})to([0-9]{1,6})`)

// alikeEnough is the similarity of Jaro and Winkler, 0 to 1, from which on a word stands for one of
// which it is the beginning.
const alikeEnough = 0.85

// Nearest is the one of some known words that a mistyped word was probably meant to be; "" if
// none comes near. Up to one letter in three may be wrong, and no more than two.
func Nearest(word string, known ...string) (nearest string) {
	word = strings.ToLower(word)
	best := 3
	for _, k := range known {
		d := smetrics.WagnerFischer(word, strings.ToLower(k), 1, 1, 1)
		if d < best && d <= (max(len(word), len(k))+1)/3 {
			nearest, best = k, d
		}
	}
	if nearest != "" {
		return nearest
	}
	alike := alikeEnough
	for _, k := range known {
		if s := smetrics.JaroWinkler(word, strings.ToLower(k), 0.7, 4); s > alike {
			nearest, alike = k, s
		}
	}
	return nearest
}
