package transcode

import (
	"encoding/binary"
	"fmt"
	"image"
	"slices"
	"sync"
	"unsafe"
)

// Type is the type of one value of a pixel.
type Type uint8

// Uint8 and Uint16 follow from the mode; Float32 is what the steps `center` and
// `float32` make.
const (
	Uint8 Type = iota
	Uint16
	Float32
)

// Size is the number of bytes a value takes.
func (t Type) Size() int { return 1 << t }

// Pixels is a decoded picture.
type Pixels struct {
	Width, Height int
	Mode          Mode
	Type          Type
	// Planar: channel by channel (CHW), not pixel by pixel (HWC).
	Planar bool
	// Pix holds the values without any padding, rows top-down, 16-bit and
	// float32 values little-endian. ModeBit takes one byte a pixel, 0 or 1.
	Pix []byte
	// Lent: Pix is from [Lend], and is taken back when the plan that decoded the picture has run.
	Lent bool
	// Palette holds the RGBA colours of ModeP, four bytes each, not
	// premultiplied, at most 256 of them.
	Palette []byte
	// Meta is what travels with the picture.
	Meta Metadata
}

// lent are slices that Lend has lent before.
var lent sync.Pool

// maxLent bounds the memory that is lent again, in bytes: that of a picture of 10 megapixels.
const maxLent = 32 << 20

// Lend returns n bytes for a picture, of any content: most pictures live for one step only.
func Lend(n int) []byte {
	if b, ok := lent.Get().(*[]byte); ok && cap(*b) >= n {
		return (*b)[:n]
	}
	return make([]byte, n)
}

// giveBack takes back what Lend has lent, unless a result lies in it.
func giveBack(b, result []byte) {
	if 0 < cap(b) && cap(b) <= maxLent && !Within(result, b) {
		lent.Put(&b)
	}
}

// Within reports whether a slice begins in the memory of another one.
func Within(part, whole []byte) bool {
	if cap(part) == 0 || cap(whole) == 0 {
		return false
	}
	at, from := uintptr(unsafe.Pointer(unsafe.SliceData(part))), uintptr(unsafe.Pointer(unsafe.SliceData(whole)))
	return at >= from && at < from+uintptr(cap(whole))
}

// Metadata is carried from a source into derived JPEG and PNG files.
type Metadata struct {
	EXIF []byte // a TIFF structure, without the "Exif\0\0" in front
	ICC  []byte // an ICC profile
	// Orientation as in EXIF, 1 to 8; 0 where the file does not say.
	Orientation uint8
}

// RowBytes is the length of one row of interleaved pixels.
func (p *Pixels) RowBytes() int { return p.Width * p.Mode.Channels() * p.Type.Size() }

// Len is the number of bytes that Pix has to have.
func (p *Pixels) Len() int { return p.Height * p.RowBytes() }

// Bounds is the rectangle of all pixels.
func (p *Pixels) Bounds() image.Rectangle { return image.Rect(0, 0, p.Width, p.Height) }

// Cut returns the pixels of a rectangle of p, and all else that p has. Where that is all
// of p, it is p itself.
func (p *Pixels) Cut(r image.Rectangle) *Pixels {
	if r == p.Bounds() {
		return p
	}
	out := *p
	out.Width, out.Height = r.Dx(), r.Dy()
	out.Pix = make([]byte, out.Len())
	Place(p, r, out.Pix, LayoutOf(&out))
	return &out
}

// Format names the encoding of a file.
type Format uint8

// The formats that samples come in or views go out in. The numbers are stored;
// never reorder them.
const (
	Unknown Format = iota
	JPEG
	PNG
	BMP
	PNM // PBM, PGM and PPM, binary
	NPY
	TIFF
	WebP
	GIF
	L3
)

var formatNames = [...]string{"unknown", "JPEG", "PNG", "BMP", "PNM", "NPY", "TIFF", "WebP", "GIF", "L3"}

func (f Format) String() string {
	if int(f) < len(formatNames) {
		return formatNames[f]
	}
	return fmt.Sprintf("Format(%d)", uint8(f))
}

// Mode says what the channels of a pixel mean. The names are Pillow's.
type Mode uint8

// The modes. The numbers are stored; never reorder them.
const (
	ModeNone   Mode = iota
	ModeBit         // "1": black and white, one byte a pixel, 0 or 1
	ModeL           // "L": grey, 8 bits
	ModeLA          // "LA": grey and alpha
	ModeP           // "P": index into a palette
	ModeRGB         // "RGB"
	ModeRGBA        // "RGBA", not premultiplied
	ModeI16         // "I;16": grey, 16 bits
	ModeLA16        // grey and alpha, 16 bits a channel; Pillow has no name for it
	ModeRGB16       // RGB, 16 bits a channel; Pillow reads its high bytes
	ModeRGBA16      // RGBA, 16 bits a channel; likewise
)

var modes = [...]struct {
	name     string
	channels int
	depth    int
}{
	{"none", 0, 0}, {"1", 1, 8}, {"L", 1, 8}, {"LA", 2, 8}, {"P", 1, 8}, {"RGB", 3, 8}, {"RGBA", 4, 8},
	{"I;16", 1, 16}, {"LA;16", 2, 16}, {"RGB;16", 3, 16}, {"RGBA;16", 4, 16},
}

func (m Mode) String() string {
	if int(m) < len(modes) {
		return modes[m].name
	}
	return fmt.Sprintf("Mode(%d)", uint8(m))
}

// Channels is the number of values a pixel has.
func (m Mode) Channels() int { return modes[m].channels }

// Depth is the number of bits a decoded value takes, 8 or 16.
func (m Mode) Depth() int { return modes[m].depth }

// Alpha reports whether the last channel is opacity.
func (m Mode) Alpha() bool {
	return m == ModeLA || m == ModeRGBA || m == ModeLA16 || m == ModeRGBA16
}

// Info is what a sample's header tells: enough to plan a pipeline and, for raw
// targets, to know the exact size of its result, without decoding anything.
type Info struct {
	Format Format
	// Mode of the decoded picture. A JPEG always decodes to RGB.
	Mode Mode
	// Width and Height in pixels, as stored: orientation is not applied.
	Width, Height int
	// Orientation as in EXIF, 1 to 8; 0 where the file does not say.
	Orientation uint8
	// Transparent: a palette with transparency, or a colour that counts as
	// transparent. Formats without either cannot hold the picture.
	Transparent bool
	// Animated: more than one frame or page.
	Animated bool
	// Scannable: a JPEG that can be stored scan by scan.
	Scannable bool
	// Lossy: the file is an approximation that takes far less than its pixels would
	// in any lossless format. A JPEG always is, and does not say so here.
	Lossy bool
}

// Verify returns an error unless a picture is of the size and the mode that i says.
func (i Info) Verify(width, height int, mode Mode) error {
	if width != i.Width || height != i.Height || mode != i.Mode {
		return Errorf(ErrInternal, "a picture of mode %v, %d×%d, where the header says %v, %d×%d",
			mode, width, height, i.Mode, i.Width, i.Height)
	}
	return nil
}

const infoSize = 12

// AppendInfo appends the stored form of i, infoSize bytes, little-endian:
// format, mode, orientation, flags, width, height.
func AppendInfo(b []byte, i Info) []byte {
	var flags byte
	for bit, set := range []bool{i.Transparent, i.Animated, i.Scannable, i.Lossy} {
		if set {
			flags |= 1 << bit
		}
	}
	b = append(b, byte(i.Format), byte(i.Mode), i.Orientation, flags)
	b = binary.LittleEndian.AppendUint32(b, uint32(i.Width))
	return binary.LittleEndian.AppendUint32(b, uint32(i.Height))
}

// ReadInfo reads what AppendInfo wrote and returns the rest of b.
func ReadInfo(b []byte) (Info, []byte, error) {
	if len(b) < infoSize {
		return Info{}, nil, Errorf(ErrTruncated, "info of %d bytes, want %d", len(b), infoSize)
	}
	i := Info{
		Format: Format(b[0]), Mode: Mode(b[1]), Orientation: b[2],
		Transparent: b[3]&1 != 0, Animated: b[3]&2 != 0, Scannable: b[3]&4 != 0, Lossy: b[3]&8 != 0,
		Width:  int(binary.LittleEndian.Uint32(b[4:])),
		Height: int(binary.LittleEndian.Uint32(b[8:])),
	}
	if int(i.Format) >= len(formatNames) || int(i.Mode) >= len(modes) || b[3] > 15 || i.Orientation > 8 {
		return Info{}, nil, Errorf(ErrBad, "info % x", b[:infoSize])
	}
	return i, b[infoSize:], nil
}

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

// Masks of every third byte of a word, from byte 0, 1 or 2 on.
const (
	from0 = 0x00ff_0000_ff00_00ff
	from1 = 0xff00_00ff_0000_ff00
	from2 = 0x0000_ff00_00ff_0000
)

// SwapRedBlue copies pixels of three bytes from src to dst, the first and the third
// byte of each exchanged: RGB to BGR, as bitmaps have them, and back. dst has the length of src, and may be src.
//
// This is on the way of every read of a BMP view, so it works on words. Eight
// pixels are three words; a byte of a word stays, or moves two places up or
// down, and the four bytes that cross into a neighbour are fetched from it.
func SwapRedBlue(dst, src []byte) {
	le := binary.LittleEndian
	for len(src) >= 24 && len(dst) >= 24 {
		s, d := src[:24:24], dst[:24:24]
		a, b, c := le.Uint64(s[0:]), le.Uint64(s[8:]), le.Uint64(s[16:])
		le.PutUint64(d[0:], a>>16&(from0&0xffff_ffff)|a&from1|a<<16&from2|b<<48&(0xff<<48))
		le.PutUint64(d[8:], b>>16&(from1&0xff_ffff_ffff)|b&from2|b<<16&(from0&^0xff)|a>>48&0xff|c<<48&(0xff<<56))
		le.PutUint64(d[16:], c>>16&from2|c&from0|c<<16&(from1&^0xffff)|b>>48&0xff00)
		src, dst = src[24:], dst[24:]
	}
	for len(src) >= 3 && len(dst) >= 3 {
		dst[0], dst[1], dst[2] = src[2], src[1], src[0]
		src, dst = src[3:], dst[3:]
	}
}
