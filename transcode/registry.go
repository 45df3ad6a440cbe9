package transcode

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const decodeName = "decode"

// Registry knows all formats and all kinds of steps. Package codecs builds the
// usual one. It is safe for concurrent use.
type Registry struct {
	limits   Limits
	decoders []Decoder
	byExt    map[string]Decoder
	kinds    map[string]*Kind
	ordered  []*Kind
	decode   *Kind
}

// NewRegistry returns a registry of the given decoders and kinds. The kind
// `decode`, which dispatches on the sample's format, is its own. Two of the
// same name or extension are a programming error and panic.
func NewRegistry(limits Limits, decoders []Decoder, kinds []*Kind) *Registry {
	r := &Registry{limits: limits, decoders: decoders, byExt: map[string]Decoder{}, kinds: map[string]*Kind{}}
	for _, d := range decoders {
		for _, ext := range d.Extensions() {
			if r.byExt[ext] != nil {
				panic("transcode: two decoders for ." + ext)
			}
			r.byExt[ext] = d
		}
	}
	r.decode = &Kind{
		Name: decodeName, Brief: "the pixels; implied where the next step needs them",
		From: Source, To: Picture, Shape: r.decodeShape, Apply: r.decodeApply,
	}
	for _, k := range append([]*Kind{r.decode}, kinds...) {
		if r.kinds[k.Name] != nil {
			panic("transcode: two kinds named " + k.Name)
		}
		r.kinds[k.Name] = k
		r.ordered = append(r.ordered, k)
	}
	return r
}

// Limits returns the limits that every step is held to.
func (r *Registry) Limits() Limits { return r.limits }

// Kinds returns all kinds of steps, in the order in which help lists them.
func (r *Registry) Kinds() []*Kind { return slices.Clone(r.ordered) }

// IsSample reports whether the file of this name is one that a codec may
// understand. Only the extension counts, in any case: names must not depend on
// what a file holds.
func (r *Registry) IsSample(name string) bool {
	_, ok := r.byExt[extension(name)]
	return ok
}

// Extensions are those of files of a format: lower case, without the dot, the usual
// one first.
func (r *Registry) Extensions(f Format) []string {
	var all []string
	if d := r.decoder(f); d != nil {
		all = append(all, d.Extensions()...)
	}
	for _, k := range r.ordered {
		if f != Unknown && k.Format == f && k.Ext != "" && !slices.Contains(all, k.Ext) {
			all = append(all, k.Ext)
		}
	}
	return all
}

// FormatOf is the format that the extension of a name stands for, Unknown where no codec
// has it.
func (r *Registry) FormatOf(name string) Format {
	if d := r.byExt[extension(name)]; d != nil {
		return d.Format()
	}
	return Unknown
}

// extension is the lower-case extension of a name, without the dot.
func extension(name string) string {
	return strings.ToLower(strings.TrimPrefix(path.Ext(name), "."))
}

// Name is the name under which p lists the file called name: with the extension of the
// format that p makes of it, which is one for all files that p changes; or its own.
func (r *Registry) Name(p Pipeline, name string, role Role) string {
	source := r.byExt[extension(name)]
	if source == nil || p.OwnNames() {
		return name
	}
	last := p.steps[len(p.steps)-1].Kind
	if (role == Mask && last.Effect == Lossy) || p.keeps(source.Format()) {
		return name
	}
	stem := strings.TrimSuffix(name, path.Ext(name))
	if stem == "" { // ".jpg" is a name, not an extension
		return name
	}
	return stem + "." + last.Ext
}

// keeps reports whether p leaves every sample of a format as it is, because it would
// write the same pixels in the same format again.
func (p Pipeline) keeps(f Format) bool {
	last := p.steps[len(p.steps)-1].Kind
	return last.Effect == Exact && last.Format == f && p.steps[0].Kind.Name == decodeName && len(p.steps) == 2
}

// Probe reads the header of a sample of size bytes. The content decides on its
// format, not the name. What begins as no format does, such as a page of HTML, is
// ErrUnsupported: nothing is known to be wrong with it.
func (r *Registry) Probe(src io.ReaderAt, size int64) (Info, error) {
	if err := r.limits.CheckFile(size); err != nil {
		return Info{}, err
	}
	head := openHead(src, size)
	defer head.close()
	first, err := head.first(headBlock)
	if err != nil {
		return Info{}, err
	}
	first = first[:min(len(first), sniffLen)]
	d := r.sniff(first)
	if d == nil {
		if len(first) == 0 {
			return Info{}, Errorf(ErrUnsupported, "an empty file")
		}
		return Info{}, Errorf(ErrUnsupported, "begins with % x: no picture format that pipefs knows", first[:min(len(first), 8)])
	}
	return d.Probe(head, size, r.limits)
}

// sniffLen is how many bytes tell a format.
const sniffLen = 16

func (r *Registry) sniff(head []byte) Decoder {
	for _, d := range r.decoders {
		if d.Sniff(head) {
			return d
		}
	}
	return nil
}

func (r *Registry) decoder(f Format) Decoder {
	for _, d := range r.decoders {
		if d.Format() == f {
			return d
		}
	}
	return nil
}

func (r *Registry) decodeShape(in Shape, _ int) (Shape, bool) {
	out := in
	out.Stage = Picture
	out.Type = Uint8
	if in.Mode.Depth() == 16 {
		out.Type = Uint16
	}
	// Scannable stays behind: it is a property of the file.
	out.Scannable = false
	return out, in.Mode != ModeNone && r.decoder(in.Format) != nil
}

func (r *Registry) decodeApply(ctx context.Context, in Payload, c Call) (Payload, error) {
	d := r.sniff(in.Bytes[:min(16, len(in.Bytes))])
	if d == nil || d.Format() != in.Shape.Format {
		return Payload{}, Errorf(ErrBad, "no longer a %v file", in.Shape.Format)
	}
	out, _ := r.decodeShape(in.Shape, 0)
	decode := func() (*Pixels, error) { return d.Decode(ctx, in.Bytes, c.Limits) }
	want := in.Shape.Info
	if part, ok := d.(RegionDecoder); ok && !c.Region.Empty() {
		decode = func() (*Pixels, error) {
			return part.DecodeRegion(ctx, in.Bytes, c.Limits, in.Shape.Info, c.Region)
		}
		want.Width, want.Height = c.Region.Dx(), c.Region.Dy()
	}
	px, err := decode()
	if err != nil {
		return Payload{}, err
	}
	if err := want.Verify(px.Width, px.Height, px.Mode); err != nil {
		return Payload{}, err
	}
	if len(px.Pix) != px.Len() {
		return Payload{}, Errorf(ErrInternal, "decoder %s gave %d bytes for %v %dx%d", d.ID(), len(px.Pix), px.Mode, px.Width, px.Height)
	}
	return Payload{Shape: out, Pixels: px}, nil
}

// Decode decodes a sample that is in memory, as the step `decode` of a view does.
func (r *Registry) Decode(ctx context.Context, src []byte) (*Pixels, error) {
	p, err := r.decoding(src)
	if err != nil {
		return nil, err
	}
	give, err := p.reserve(ctx, p.Work(0, src))
	if err != nil {
		return nil, err
	}
	defer give()
	return p.decode(ctx, src)
}

// decoding is the plan that only decodes a sample.
func (r *Registry) decoding(src []byte) (Plan, error) {
	info, err := r.ProbeBytes(src)
	out, _ := r.decodeShape(Shape{Info: info, Stage: Source}, 0)
	return Plan{registry: r, source: info, steps: []Applied{{Step: Step{Kind: r.decode}, Out: out}}}, err
}

// decode runs the first step of a plan, which is to decode.
func (p Plan) decode(ctx context.Context, src []byte) (*Pixels, error) {
	out, err := p.registry.decodeApply(ctx, Payload{Shape: Shape{Info: p.source, Stage: Source}, Bytes: src}, Call{Limits: p.registry.limits})
	return out.Pixels, err
}

// Implementations names what makes the results: the id of each kind of step by
// its name, and of each decoder by its format's.
func (r *Registry) Implementations() (steps, decoders map[string]string) {
	steps, decoders = map[string]string{}, map[string]string{}
	for _, k := range r.ordered {
		if k != r.decode {
			steps[k.Name] = k.ID
		}
	}
	for _, d := range r.decoders {
		decoders[d.Format().String()] = d.ID()
	}
	return steps, decoders
}

// Digest names what p makes of any sample: equal digests, on any machines, mean that equal
// samples give equal bytes. For a [Stored] pipeline this holds where the same samples are
// materialized. p has to come from this registry.
func (r *Registry) Digest(p Pipeline) string {
	h := sha256.New()
	if p.stored {
		fmt.Fprintln(h, Stored)
	}
	for _, s := range p.steps {
		fmt.Fprintf(h, "%s %s\n", s, s.Kind.ID)
		if s.Kind == r.decode {
			for _, d := range r.decoders {
				fmt.Fprintf(h, " %s %s\n", d.Format(), d.ID())
			}
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// encoders lists the kinds that can end a pipeline at a stage.
func (r *Registry) encoders(at Stage) []string {
	var names []string
	for _, k := range r.ordered {
		if k.To == File && k.From&at != 0 {
			names = append(names, r.example(k))
		}
	}
	return names
}

// example is a step that shows what a kind is for.
func (r *Registry) example(k *Kind) string {
	switch {
	case k.Usual != "":
		return k.Usual
	case k.Max == 0:
		return k.Name
	}
	for _, usual := range []int{5, 90, 256, 224} {
		if usual >= k.Min && usual <= k.Max && (usual != 5 || k.Max <= 10) && (usual != 90 || k.Max <= 100) {
			return k.Name + strconv.Itoa(usual)
		}
	}
	return k.Name + strconv.Itoa(k.Min)
}

// suggest says what a word that is no step was probably meant to be, with the number that
// it has.
func (r *Registry) suggest(name, digits string) string {
	names := make([]string, 0, len(r.ordered))
	for _, k := range r.ordered {
		if k != r.decode {
			names = append(names, k.Name)
		}
	}
	meant := r.apart(name + digits)
	if meant == "" {
		meant = Nearest(name, append(names, Original, Stored, Own)...)
		if k := r.kinds[meant]; k != nil && k.Max != 0 && (digits == "" || k.More != nil) {
			meant = r.example(k)
		} else if k != nil && k.Max != 0 {
			meant += digits
		}
	}
	if meant == "" {
		return "the steps are " + strings.Join(names, ", ")
	}
	return "did you mean " + meant + "?"
}

// apart is a word that holds several steps, with hyphens between them; empty where it does
// not.
func (r *Registry) apart(word string) string {
	var steps []string
	for part := range strings.FieldsFuncSeq(word, func(c rune) bool { return strings.ContainsRune("._+,", c) }) {
		steps = append(steps, numbered.FindAllString(part, -1)...)
	}
	if len(steps) < 2 {
		return ""
	}
	for _, s := range steps {
		if _, reason, _ := r.step(s); reason != "" {
			return ""
		}
	}
	return strings.Join(steps, "-")
}

// numbered is a word up to the end of its number.
var numbered = regexp.MustCompile(`[^0-9]+[0-9]*|[0-9]+`)
