package transcode

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// ArrayHeaderSize is the offset of the values in an npy file, a multiple of 64. It is the
// same for all pictures: the dictionary takes from 60 to 90 bytes, and where the values
// begin must not depend on anything but the format.
const ArrayHeaderSize = 128

const arrayMagic = "\x93NUMPY\x01\x00"

// Array is what an npy file holds: numbers, and how they lie.
type Array struct {
	Shape []int // as NumPy writes it
	Mode  Mode
	Type  Type
}

// Equal reports whether two arrays have the same shape and type.
func (a Array) Equal(b Array) bool {
	return slices.Equal(a.Shape, b.Shape) && a.Type == b.Type && (a.Mode == ModeBit) == (b.Mode == ModeBit)
}

// Bytes is how many bytes the values take.
func (a Array) Bytes() int64 {
	n := int64(a.Type.Size())
	for _, side := range a.Shape {
		n *= int64(side)
	}
	return n
}

// Array is what the plan's result holds; ok is false where that is no npy file.
func (p Plan) Array() (a Array, ok bool) {
	if p.Unchanged() {
		return a, false
	}
	last := p.steps[len(p.steps)-1]
	if last.Kind.To != File || last.Kind.Format != NPY {
		return a, false
	}
	out := last.Out
	a.Shape, a.Mode, a.Type = []int{out.Height, out.Width}, out.Mode, out.Type
	channels := out.Mode.Channels()
	switch {
	case slices.ContainsFunc(p.steps, func(s Applied) bool { return s.Kind.Planar }):
		a.Shape = []int{channels, out.Height, out.Width}
	case channels > 1:
		a.Shape = append(a.Shape, channels)
	}
	return a, true
}

// trials are sizes of pictures that have nothing in common.
var trials = [][2]int{{640, 427}, {333, 1021}, {7, 5}, {1, 1}, {4099, 211}}

// Fixed is what p makes of a picture where it gives all pictures one size: RGB pictures of 8
// bits, such as JPEG files. ok is false where it does not, and where p shows files as they
// are. The view is tried on sizes that have nothing in common: a step says itself what it
// makes of a size, so that no list of steps has to be kept.
func (r *Registry) Fixed(p Pipeline) (fixed Plan, ok bool) {
	for i, size := range trials {
		plan := r.Plan(p, Info{Format: JPEG, Mode: ModeRGB, Width: size[0], Height: size[1]}, Auto)
		if p.Stored() || i > 0 && (plan.Out().Width != fixed.Out().Width || plan.Out().Height != fixed.Out().Height) {
			return fixed, false
		}
		fixed = plan
	}
	return fixed, true
}

// FixedArray is what the files of p hold where that is the same for pictures of every size.
// ok is false where it is not, and where they are no npy files.
func (r *Registry) FixedArray(p Pipeline) (a Array, ok bool) {
	if plan, fixed := r.Fixed(p); fixed {
		a, ok = plan.Array()
	}
	return a, ok
}

// DType is how NumPy names the type of the values of a picture.
func DType(t Type, m Mode) string {
	switch {
	case t == Uint16:
		return "<u2"
	case t == Float32:
		return "<f4"
	case m == ModeBit:
		return "|b1"
	}
	return "|u1"
}

// AppendArrayHeader appends what precedes the values of an array in an npy file, [ArrayHeaderSize] bytes: any
// three numbers fit, and four of pictures.
func AppendArrayHeader(b []byte, dtype string, shape ...int) []byte {
	start := len(b)
	b = append(b, arrayMagic...)
	b = append(b, 0, 0)
	b = fmt.Appendf(b, "{'descr': '%s', 'fortran_order': False, 'shape': (", dtype)
	for i, n := range shape {
		if i > 0 {
			b = append(b, ' ')
		}
		b = fmt.Appendf(b, "%d", n)
		if i+1 < len(shape) || i == 0 {
			b = append(b, ',')
		}
	}
	b = append(b, "), }"...)
	// The newline is the last byte of the padding.
	for len(b)-start+1 < ArrayHeaderSize {
		b = append(b, ' ')
	}
	b = append(b, '\n')
	binary.LittleEndian.PutUint16(b[start+len(arrayMagic):], ArrayHeaderSize-uint16(len(arrayMagic))-2)
	return b
}

// values writes the values of an npy file, and no header.
var values = &Kind{
	Name: "values", From: Picture | Tensor | Planes, To: File, Format: NPY,
	Size: func(out Shape) int64 {
		return int64(out.Width) * int64(out.Height) * int64(out.Mode.Channels()*out.Type.Size())
	},
	Frame: func(px *Pixels, alloc Alloc) ([]byte, Layout, bool) {
		return alloc(int64(px.Len())), LayoutOf(px), px.Mode != ModeNone
	},
	Apply: Encoding(func(px *Pixels) ([]byte, error) { return px.Pix, nil }),
}

// Values is a plan that ends in an npy file without the header of that. Nothing that it
// makes is ever stored: it has no key.
func (p Plan) Values() Plan {
	p.steps = slices.Clone(p.steps)
	p.steps[len(p.steps)-1].Kind = values
	return p
}
