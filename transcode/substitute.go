package transcode

import (
	"bytes"
	"context"
)

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
