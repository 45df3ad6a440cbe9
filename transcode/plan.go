package transcode

import (
	"bytes"
	"context"
	"slices"
	"strings"
)

// Plan is a pipeline fitted to one sample: the steps that apply to it, in
// order. A plan without steps leaves the sample unchanged.
type Plan struct {
	registry *Registry
	source   Info
	steps    []Applied
	spared   bool
}

// Applied is a step as it applies to a sample.
type Applied struct {
	Step
	// At is the step of the pipeline that it is, or takes the place of.
	At      int
	Nearest bool // see [Call]
	Out     Shape
	// Choice is what a random step has drawn; see [Plan.Drawn].
	Choice Choice
	drawn  bool
}

// Plan fits p to a sample. A step that does not represent the sample exactly,
// or would harm what may be a mask, is left out; where the last step, the one
// that makes the file, is left out, the sample stays as it is. Only what the user
// calls a mask becomes another file then if its size changed: it has to fit its picture.
func (r *Registry) Plan(p Pipeline, info Info, role Role) Plan {
	return r.plan(p, info, role, false)
}

// PlanReencoded is [Registry.Plan] for a sample whose file is not to be had, but its
// picture is. Where p ends in the format of the sample and changes nothing, the picture
// is encoded again: the pixels and metadata of the file, in bytes of our own.
func (r *Registry) PlanReencoded(p Pipeline, info Info, role Role) Plan {
	return r.plan(p, info, role, true)
}

func (r *Registry) plan(p Pipeline, info Info, role Role, reencode bool) Plan {
	plan := Plan{registry: r, source: info}
	role = p.Role(role)
	// A format that holds one frame cannot represent several, unless the user
	// says that the file is a picture and so its first frame is what matters.
	if info.Animated && role != Image {
		return plan
	}
	mask := role == Mask || (role == Auto && maybeMask(info))
	at := Shape{Info: info, Stage: Source, Mask: mask}
	changed, moved := false, false
	apply := func(s Step, i int) bool {
		out, nearest, ok := fit(s, at, mask, role)
		if !ok {
			if picture := at; mask && role == Auto {
				picture.Mask = false
				_, would := s.Kind.Shape(picture, s.Arg)
				plan.spared = plan.spared || would
			}
			return false
		}
		plan.steps = append(plan.steps, Applied{Step: s, At: i, Nearest: nearest, Out: out})
		at = out
		changed = changed || s.Kind != r.decode && s.Kind.To != File
		moved = moved || s.Kind.Effect == Geometric || s.Kind.Effect == Resampling || nearest
		return true
	}
	unchanged := func() Plan { plan.steps = nil; return plan }
	for i, s := range p.steps {
		// The same format again, and nothing done in between: the file itself.
		if s.Kind.To == File && !reencode && !changed && s.Kind.Effect == Exact && s.Kind.Format == info.Format {
			return unchanged()
		}
		if apply(s, i) {
			continue
		}
		if at.Stage == Source && s.Kind.To == Picture && s.Kind != r.decode {
			// What follows needs pixels all the same.
			if !apply(Step{Kind: r.decode}, i) {
				return unchanged()
			}
			if s.Kind.Follow != nil {
				apply(Step{Kind: s.Kind.Follow}, i)
			}
			continue
		}
		if s.Kind.To != File && s.Kind != r.decode {
			continue
		}
		// That one colour counts as transparent is no label, and no format could hold it.
		at.Transparent = at.Transparent && at.Mode == ModeP
		write := func(k *Kind) bool { return apply(Step{Kind: k}, i) }
		if role != Mask || !moved || !slices.ContainsFunc(r.lossless(info.Format, at.Stage), write) {
			return unchanged()
		}
	}
	return plan
}

// lossless are the kinds that write a mask which the last step of a view would harm:
// its own format, so that file and name go together, or else PNG, which holds every mode.
func (r *Registry) lossless(own Format, at Stage) (kinds []*Kind) {
	for _, format := range []Format{own, PNG} {
		for _, k := range r.ordered {
			if k.To == File && k.From&at != 0 && k.Max == 0 && k.Effect == Exact && k.Format == format {
				kinds = append(kinds, k)
			}
		}
	}
	return kinds
}

// fit decides on one step for one sample.
func fit(s Step, at Shape, mask bool, role Role) (out Shape, nearest, ok bool) {
	if mask {
		switch {
		case s.Kind.Effect == Lossy && !s.Kind.Warps, s.Kind.Effect != Exact && role != Mask:
			return at, false, false
		case s.Kind.Effect != Exact:
			nearest = true
		}
	}
	out, ok = s.Kind.Shape(at, s.Arg)
	return out, nearest, ok
}

// maybeMask reports whether a sample may hold labels. A JPEG never does: it
// decodes to RGB, and labels are not stored with losses.
func maybeMask(i Info) bool {
	switch i.Mode {
	case ModeBit, ModeL, ModeLA, ModeP, ModeI16, ModeLA16, ModeRGB16, ModeRGBA16:
		return i.Format != JPEG
	}
	return false
}

// Blends reports whether values of the sample are mixed or replaced: whether the plan
// would harm it if it was a mask.
func (p Plan) Blends() bool {
	return slices.ContainsFunc(p.steps, func(s Applied) bool { return s.Kind.blends() && !s.Nearest })
}

// Spared reports whether a step was left out because the sample may be a mask.
func (p Plan) Spared() bool { return p.spared }

// Undecided reports whether the pixels of a sample decide whether steps of p apply to it:
// they are left out as long as it may be a mask, and [LookPicture] tells that it is none.
func (r *Registry) Undecided(p Pipeline, info Info, role Role) bool {
	looks := (info.Mode == ModeL || info.Mode == ModeLA || info.Mode == ModeP) && !info.Animated
	return looks && r.Plan(p, info, role).Spared()
}

// Unchanged reports whether the view shows the sample as it is.
func (p Plan) Unchanged() bool { return len(p.steps) == 0 }

// Key names the plan's result: the steps as they apply to this sample, and the
// implementations of all of them. Equal keys over an equal source are equal
// bytes. The key of a splittable first step has no argument.
func (p Plan) Key() string {
	if p.Unchanged() {
		return Original
	}
	if len(p.steps) == 1 && p.steps[0].Kind.Split != nil {
		return SplitKey(p.steps[0].Kind)
	}
	words := make([]string, len(p.steps))
	ids := make([]string, len(p.steps))
	for i, s := range p.steps {
		words[i] = s.String() + s.Choice.String()
		if s.Nearest {
			words[i] += "~"
		}
		ids[i] = s.Kind.ID
		if s.Kind == p.registry.decode {
			ids[i] = p.registry.decoder(p.source.Format).ID()
		}
	}
	return strings.Join(words, "-") + "@" + strings.Join(ids, ",")
}

// Makes reports whether a plan of this registry can have that key: it knows the steps, and
// their implementations are the same.
func (r *Registry) Makes(key string) bool {
	if key == Original {
		return true
	}
	steps, made, _ := strings.Cut(key, "@")
	words, ids := strings.Split(steps, "-"), strings.Split(made, ",")
	if len(words) != len(ids) {
		return false
	}
	for i, word := range words {
		word = strings.TrimSuffix(word, "~")
		kind := r.kinds[word]
		if kind == nil {
			kind = r.kinds[strings.TrimRight(word, "0123456789")]
		}
		switch {
		case kind == nil:
			return false
		case kind == r.decode:
			if !slices.ContainsFunc(r.decoders, func(d Decoder) bool { return d.ID() == ids[i] }) {
				return false
			}
		case kind.ID != ids[i]:
			return false
		}
	}
	return true
}

// SplitKey is the key of the representation that serves every argument of k.
func SplitKey(k *Kind) string { return k.Name + "@" + k.ID }

// ReconstructionKey is the key of what [Kind.Restore] needs beside that representation.
func ReconstructionKey(k *Kind) string { return k.Name + "-undo@" + k.ID }

// Head returns the plan's first step where one stored representation serves all
// its arguments; ok is false where there is no such step.
func (p Plan) Head() (s Step, ok bool) {
	if p.Unchanged() || p.steps[0].Kind.Split == nil {
		return Step{}, false
	}
	return p.steps[0].Step, true
}

// Steps are those that apply, in order; the caller must not change them.
func (p Plan) Steps() []Applied { return p.steps }

// Len is the number of steps that apply.
func (p Plan) Len() int { return len(p.steps) }

// Out is what the view shows: of a sample that it leaves unchanged, the sample itself.
func (p Plan) Out() Shape {
	if p.Unchanged() {
		return Shape{Info: p.source, Stage: Source}
	}
	return p.steps[len(p.steps)-1].Out
}

// Info is what the sample's header told.
func (p Plan) Info() Info { return p.source }

// Shrinks reports whether the plan leaves fewer pixels than the sample has.
func (p Plan) Shrinks() bool {
	out := p.Out()
	return int64(out.Width)*int64(out.Height) < int64(p.source.Width)*int64(p.source.Height)
}

// Size is the exact length of the result in bytes, where it has a closed form.
// The length of an unchanged sample is its own, which a plan does not know.
func (p Plan) Size() (int64, bool) {
	if p.Unchanged() {
		return 0, false
	}
	last := p.steps[len(p.steps)-1]
	if last.Kind.Size == nil {
		return 0, false
	}
	return last.Kind.Size(last.Out), true
}

// Run applies the steps to the bytes of the sample.
func (p Plan) Run(ctx context.Context, src []byte) ([]byte, error) {
	return p.RunAfter(ctx, 0, src, newBytes)
}

// RunAfter applies what follows the first n steps to their result, which has to
// be encoded bytes: the sample itself or what a splittable step made of it. The
// result may lie in memory from alloc, and may lie in src.
func (p Plan) RunAfter(ctx context.Context, n int, src []byte, alloc Alloc) ([]byte, error) {
	at := Payload{Shape: Shape{Info: p.source, Stage: Source}, Bytes: src}
	if n > 0 {
		at.Shape = p.steps[n-1].Out
	}
	steps := p.steps[n:]
	for i := range steps {
		if s := &steps[i]; s.Kind.Draw != nil && !s.drawn {
			return nil, Errorf(ErrInternal, "%s has not been drawn", s)
		}
	}
	give, err := p.reserve(ctx, p.Work(n, src))
	if err != nil {
		return nil, err
	}
	defer give()
	if file, ok, err := p.fill(ctx, steps, src, alloc); err != nil {
		return nil, err
	} else if ok {
		at.Bytes, steps = file, nil
	} else if file, ok, err = p.inPlace(ctx, steps, src, alloc); err != nil {
		return nil, err
	} else if ok {
		at.Bytes, steps = file, nil
	}
	var decoded []byte // that was lent
	for i, s := range steps {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		call := s.call(p.registry.limits)
		if i+1 < len(steps) {
			call.Region = steps[i+1].region(s.Out, p.registry.limits)
		}
		if file, ok, err := s.last(ctx, at, call, steps[i+1:], alloc); err != nil {
			return nil, err
		} else if ok {
			at.Bytes = file
			break
		}
		out, err := s.Kind.Apply(ctx, at, call)
		if err != nil {
			return nil, err
		}
		if s.Kind == p.registry.decode && out.Pixels.Lent {
			decoded = out.Pixels.Pix
		}
		out.Shape, out.Region = s.Out, call.Region
		if r := call.Region; !r.Empty() && out.Pixels.Bounds().Size() != r.Size() {
			out.Pixels = out.Pixels.Cut(r)
		}
		at = out
	}
	if want, ok := p.Size(); ok && want != int64(len(at.Bytes)) {
		return nil, Errorf(ErrInternal, "%s made %d bytes where %d were promised", p.Key(), len(at.Bytes), want)
	}
	giveBack(decoded, at.Bytes)
	return at.Bytes, nil
}

// ProbeBytes reads the header of a sample that is in memory.
func (r *Registry) ProbeBytes(src []byte) (Info, error) {
	return r.Probe(bytes.NewReader(src), int64(len(src)))
}

// A substitute is a file that holds the same picture as a sample, exactly: the same
// pixels, mode and metadata. Whatever a plan makes of the sample once it is
// decoded can be made of the substitute as well, and it decodes faster.

// SubstituteKey names the substitute that k makes of a sample; ok is false where it
// cannot hold the picture, or would not be worth it: what lossy formats decode to
// takes far more than their files.
func (r *Registry) SubstituteKey(k *Kind, info Info) (key string, ok bool) {
	p, ok := r.substitutePlan(k, info)
	return p.Key(), ok
}

// substitutePlan is the plan that makes a substitute.
func (r *Registry) substitutePlan(k *Kind, info Info) (Plan, bool) {
	if !k.Substitute || info.Format == k.Format || info.Format == JPEG || info.Lossy || info.Animated {
		return Plan{}, false
	}
	p := Plan{registry: r, source: info}
	at := Shape{Info: info, Stage: Source}
	for _, kind := range []*Kind{r.decode, k} {
		out, ok := kind.Shape(at, 0)
		if !ok {
			return Plan{}, false
		}
		p.steps = append(p.steps, Applied{Step: Step{Kind: kind}, Out: out})
		at = out
	}
	return p, true
}

// Substitute makes the substitute of a sample, and makes sure that it decodes to the
// same picture.
func (r *Registry) Substitute(ctx context.Context, k *Kind, info Info, src []byte) ([]byte, error) {
	p, ok := r.substitutePlan(k, info)
	if !ok {
		return nil, Errorf(ErrUnsupported, "%s cannot stand for this %v", k.Name, info.Format)
	}
	give, err := p.reserve(ctx, p.Work(0, src)+p.steps[0].Out.bytes()) // it is decoded again
	if err != nil {
		return nil, err
	}
	defer give()
	decoded, err := p.decode(ctx, src)
	if err != nil {
		return nil, err
	}
	file, err := k.Apply(ctx, Payload{Shape: p.steps[0].Out, Pixels: decoded}, Call{Limits: r.limits})
	if err != nil {
		return nil, err
	}
	again, err := r.decoding(file.Bytes)
	if err != nil {
		return nil, Errorf(ErrInternal, "%s does not decode: %v", p.Key(), err)
	}
	back, err := again.decode(ctx, file.Bytes)
	if err != nil {
		return nil, Errorf(ErrInternal, "%s does not decode: %v", p.Key(), err)
	}
	if !samePicture(decoded, back) {
		return nil, Errorf(ErrInternal, "%s holds another picture", p.Key())
	}
	return file.Bytes, nil
}

func samePicture(a, b *Pixels) bool {
	return a.Width == b.Width && a.Height == b.Height && a.Mode == b.Mode && a.Type == b.Type && a.Planar == b.Planar &&
		bytes.Equal(a.Pix, b.Pix) && bytes.Equal(a.Palette, b.Palette) &&
		bytes.Equal(a.Meta.EXIF, b.Meta.EXIF) && bytes.Equal(a.Meta.ICC, b.Meta.ICC) && a.Meta.Orientation == b.Meta.Orientation
}

// From returns the plan that makes the same of the sample's substitute. ok is false
// where the plan does not begin with decoding.
func (p Plan) From(k *Kind) (rest Plan, ok bool) {
	if p.Unchanged() || p.steps[0].Kind != p.registry.decode {
		return Plan{}, false
	}
	rest = p
	rest.source.Format = k.Format
	return rest, true
}
