package kernel

import (
	"math"
	"math/bits"

	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/l3"
)

// Target is where samples go to in device memory. Sample c of the pixel at x, y is
// at Base + y*Row + x*Pixel + c*Channel, all in bytes, and has to be a multiple of
// its size.
type Target struct {
	// Low and High are the memory that may be written to: from Low to before High.
	Low, High           uint64
	Base                uint64
	Row, Pixel, Channel int64
	Output              Output
	// Scale and Bias are those of the channels, for numbers only.
	Scale, Bias [4]float32
}

// Picture is a file in device memory, and what it is to become.
type Picture struct {
	Samples *l3.Samples
	// Source is the address of the file, a multiple of Alignment, where Padding zeros
	// follow it.
	Source uint64
	Target Target
}

// Launch is a kernel and the patches that it takes.
type Launch struct {
	Entry        string
	First, Count int // of the records of patches
	Blocks       int // each of Threads
}

// Plan is what decodes a batch of pictures.
type Plan struct {
	// Errors has one for each picture: those that are not nil are not decoded.
	Errors   []error
	Launches []Launch
	// Scratch is how many bytes of scratch memory are needed.
	Scratch int64

	pictures []PictureRecord
	patches  [len(entries)][]plannedPatch
	places   []*l3.Samples
}

// plannedPatch is a patch before the scratch memory has an address.
type plannedPatch struct {
	PatchRecord
	scratch int64 // where its scratch row is in there, or -1
}

func entry(s *l3.Samples) int {
	channels := s.Mode.Channels()
	switch {
	case s.Version == 1:
		return channels / 2
	case s.Mode.Depth() == 16:
		return 5 + channels
	}
	return 1 + channels
}

// New checks pictures and makes their plan.
func New(pictures []Picture) *Plan {
	p := &Plan{Errors: make([]error, len(pictures)), pictures: make([]PictureRecord, len(pictures)), places: make([]*l3.Samples, len(pictures))}
	for i := range pictures {
		p.places[i] = pictures[i].Samples
		p.Errors[i] = p.add(i, &pictures[i])
	}
	first := 0
	for i, name := range entries {
		if n := len(p.patches[i]); n > 0 {
			p.Launches = append(p.Launches, Launch{name, first, n, (n + warps - 1) / warps})
			first += n
		}
	}
	return p
}

func (p *Plan) add(i int, picture *Picture) error {
	s, t := picture.Samples, &picture.Target
	parts, err := s.Parts()
	if err != nil {
		return err
	}
	if len(s.Source()) > maxFile || len(parts) > maxPatches || s.Version == 2 && min(s.PatchWidth, s.Width) > maxWidth {
		return transcode.Errorf(transcode.ErrUnsupported, "L3 file of %d bytes, %d patches of %d×%d, on a GPU", len(s.Source()), len(parts), s.PatchWidth, s.PatchHeight)
	}
	if picture.Source%Alignment != 0 {
		return transcode.Errorf(transcode.ErrInternal, "L3 file at address %#x", picture.Source)
	}
	if err := t.check(s.Width, s.Height, s.Mode.Channels(), s.Mode.Depth()); err != nil {
		return err
	}
	records := make([]plannedPatch, len(parts))
	scratch := p.Scratch
	for k, part := range parts {
		r := plannedPatch{PatchRecord{Picture: uint32(i), Index: uint32(k)}, -1}
		for c := range part.Offset {
			r.Offset[c], r.Length[c] = uint32(part.Offset[c]), uint32(part.Length[c])
		}
		if s.Version == 2 {
			if part.Length[0] > maxPatch {
				return transcode.Errorf(transcode.ErrUnsupported, "L3 patch of %d bytes on a GPU", part.Length[0])
			}
			_, _, width, height := s.Rect(k)
			coded := int64(s.Mode.Channels() * s.Mode.Depth() / 8)
			// What the kernel refuses too, here before memory is asked for.
			if int64(max(width, 64))*int64((height+lanes-1)/lanes)*coded > 4*int64(part.Length[0]) {
				return transcode.Errorf(transcode.ErrTruncated, "patch of %d×%d in %d bytes", width, height, part.Length[0])
			}
			if width > narrow && height > lanes {
				r.scratch = scratch
				// Two bytes a sample.
				scratch += (int64(width)*int64(s.Mode.Channels())*2 + Alignment - 1) &^ (Alignment - 1)
			}
		}
		records[k] = r
	}
	p.Scratch = scratch
	p.patches[entry(s)] = append(p.patches[entry(s)], records...)
	p.pictures[i] = PictureRecord{
		Src: picture.Source, Dst: t.Base, Row: t.Row, Pixel: t.Pixel, Channel: t.Channel,
		Width: uint32(s.Width), Height: uint32(s.Height), PatchWidth: uint32(s.PatchWidth), PatchHeight: uint32(s.PatchHeight),
		Channels: uint8(s.Mode.Channels()), Depth: uint8(s.Mode.Depth()), Output: uint8(t.Output), Version: uint8(s.Version),
		Columns: uint32(s.Columns()), Scale: t.Scale, Bias: t.Bias,
	}
	return nil
}

// check returns an error unless all samples lie in the memory of the target.
func (t *Target) check(width, height, channels, depth int) error {
	size := t.Output.size(depth)
	if t.Output > Float16 || (int64(t.Base)|t.Row|t.Pixel|t.Channel)&(size-1) != 0 {
		return transcode.Errorf(transcode.ErrInternal, "target at %#x, by %d, %d, %d, of elements of %d bytes", t.Base, t.Row, t.Pixel, t.Channel, size)
	}
	if t.Row != int64(int32(t.Row)) || t.Pixel != int64(int32(t.Pixel)) {
		return transcode.Errorf(transcode.ErrUnsupported, "target by %d, %d on a GPU", t.Row, t.Pixel)
	}
	// How much lies before the first sample, and how much after its beginning.
	var before, after uint64
	after = uint64(size)
	for _, d := range [3][2]int64{{t.Row, int64(height)}, {t.Pixel, int64(width)}, {t.Channel, int64(channels)}} {
		step, to := d[0], &after
		if step < 0 {
			step, to = -step, &before
		}
		high, span := bits.Mul64(uint64(step), uint64(d[1]-1))
		*to += span
		if high != 0 || span > math.MaxInt64/4 {
			return transcode.Errorf(transcode.ErrInternal, "target by %d, %d, %d", t.Row, t.Pixel, t.Channel)
		}
	}
	if t.Low > t.Base || t.Base-t.Low < before || t.High < t.Base || t.High-t.Base < after {
		return transcode.Errorf(transcode.ErrInternal, "a picture of %d×%d×%d samples takes %d bytes before and %d after %#x, there is memory from %#x to %#x",
			width, height, channels, before, after, t.Base, t.Low, t.High)
	}
	return nil
}

// Records returns the tables of pictures and of patches, given the address of the
// scratch memory.
func (p *Plan) Records(scratch uint64) (pictures, patches []byte) {
	var all []PatchRecord
	for _, records := range p.patches {
		for _, r := range records {
			if r.scratch >= 0 {
				at := scratch + uint64(r.scratch)
				r.Offset[1], r.Offset[2] = uint32(at), uint32(at>>32)
			}
			all = append(all, r.PatchRecord)
		}
	}
	return bytesOf(p.pictures), bytesOf(all)
}

// Err returns what the status of picture i means.
func (p *Plan) Err(i int, status uint32) error {
	if p.Errors[i] != nil || status == math.MaxUint32 {
		return p.Errors[i]
	}
	index, why := int(status>>4), status&15
	if why == 0 || int(why) >= len(refusals) || index >= p.places[i].Columns()*((p.places[i].Height-1)/p.places[i].PatchHeight+1) {
		return transcode.Errorf(transcode.ErrInternal, "L3 status %#x", status)
	}
	s, r := p.places[i], refusals[why]
	x, y := index%s.Columns()*s.PatchWidth, index/s.Columns()*s.PatchHeight
	return transcode.Errorf(r.kind, "L3 patch at %d, %d: %s", x, y, r.says)
}
