package raster

import (
	"context"
	"encoding/binary"
	"math"

	"github.com/pipefs/pipefs/transcode"
)

// mixable is the mode in which the pixels of a picture of mode m can be mixed
// with each other; ModeNone where they stay as they are, since neither Pillow
// nor we resample 16 bits.
func mixable(m transcode.Mode, transparent bool) transcode.Mode {
	switch m {
	case transcode.ModeBit:
		return transcode.ModeL
	case transcode.ModeP:
		if transparent {
			return transcode.ModeRGBA
		}
		return transcode.ModeRGB
	case transcode.ModeL, transcode.ModeLA, transcode.ModeRGB, transcode.ModeRGBA:
		return m
	}
	return transcode.ModeNone
}

// mixed sets the mode of s to mixable's and reports whether there is one.
func mixed(s transcode.Shape) (transcode.Shape, bool) {
	m := mixable(s.Mode, s.Transparent)
	if s.Mode == transcode.ModeP {
		s.Transparent = false // it has become alpha
	}
	s.Mode = m
	return s, m != transcode.ModeNone
}

// toMode converts black and white to grey, and a palette to its colours. The
// result has no palette; a picture of mode m already is returned as it is.
func toMode(px *transcode.Pixels, m transcode.Mode) *transcode.Pixels {
	if px.Mode == m {
		return px
	}
	out := *px
	out.Mode, out.Palette = m, nil
	out.Pix = make([]byte, out.Len())
	if px.Mode == transcode.ModeBit {
		for i, v := range px.Pix {
			out.Pix[i] = -(v & 1)
		}
		return &out
	}
	// Indices past the end of the palette are black and opaque, as in Pillow.
	var table [256][4]byte
	for i := range table {
		table[i][3] = 255
		if 4*i+4 <= len(px.Palette) {
			copy(table[i][:], px.Palette[4*i:])
		}
	}
	dst := out.Pix
	if m == transcode.ModeRGB {
		for _, v := range px.Pix {
			c := &table[v]
			dst[0], dst[1], dst[2] = c[0], c[1], c[2]
			dst = dst[3:]
		}
		return &out
	}
	for _, v := range px.Pix {
		copy(dst, table[v][:])
		dst = dst[4:]
	}
	return &out
}

// like returns a picture of the same kind as px, of another size, zeroed.
func like(px *transcode.Pixels, width, height int) *transcode.Pixels {
	out := *px
	out.Width, out.Height = width, height
	out.Pix = make([]byte, out.Len())
	return &out
}

// Grey is the step `grey`: luma, ITU-R 601.
func Grey() *transcode.Kind {
	return &transcode.Kind{
		Name: "grey", Brief: "one channel of luma, as Pillow's convert('L'); alpha stays",
		From: transcode.Picture | transcode.Tensor, ID: "grey1", Effect: transcode.Lossy,
		Shape: func(in transcode.Shape, _ int) (transcode.Shape, bool) {
			out, ok := in, true
			if in.Type == transcode.Uint8 {
				out, ok = mixed(in)
			}
			out.Mode = greyOf(out.Mode)
			// Integers of 16 bits have no usual formula; floats are all alike.
			return out, ok && in.Type != transcode.Uint16 && out.Mode != transcode.ModeNone && out.Mode != in.Mode
		},
		Apply: func(_ context.Context, in transcode.Payload, _ transcode.Call) (transcode.Payload, error) {
			px := in.Pixels
			if px.Type == transcode.Uint8 {
				px = toMode(px, mixable(px.Mode, in.Shape.Transparent))
			}
			return transcode.Payload{Pixels: greyed(px)}, nil
		},
	}
}

// greyOf is the mode without colours; ModeNone for a palette.
func greyOf(m transcode.Mode) transcode.Mode {
	switch m {
	case transcode.ModeRGB:
		return transcode.ModeL
	case transcode.ModeRGBA:
		return transcode.ModeLA
	case transcode.ModeRGB16:
		return transcode.ModeI16
	case transcode.ModeRGBA16:
		return transcode.ModeLA16
	case transcode.ModeL, transcode.ModeLA, transcode.ModeI16, transcode.ModeLA16:
		return m
	}
	return transcode.ModeNone
}

// greyed removes the colours of px.
func greyed(px *transcode.Pixels) *transcode.Pixels {
	mode := greyOf(px.Mode)
	if mode == px.Mode {
		return px
	}
	out := *px
	out.Mode = mode
	out.Pix = make([]byte, out.Len())
	n, m := px.Mode.Channels(), mode.Channels()
	if px.Type == transcode.Float32 {
		greyFloat(out.Pix, px.Pix, n, m)
		return &out
	}
	for i, j := 0, 0; j < len(out.Pix); i, j = i+n, j+m {
		p := px.Pix[i : i+n]
		// .299, .587 and .114 in 16 bits after the point, as Pillow rounds them.
		out.Pix[j] = byte((uint32(p[0])*19595 + uint32(p[1])*38470 + uint32(p[2])*7471 + 1<<15) >> 16)
		if m == 2 {
			out.Pix[j+1] = p[3]
		}
	}
	return &out
}

// greyFloat mixes n channels into m, of which the second is alpha.
func greyFloat(dst, src []byte, n, m int) {
	for ; len(src) >= 4*n; src, dst = src[4*n:], dst[4*m:] {
		r, g, b := float(src), float(src[4:]), float(src[8:])
		// The conversions keep the compiler from fusing, which some machines
		// would do and others not.
		luma := float32(float32(.299*r)+float32(.587*g)) + float32(.114*b)
		putFloat(dst, luma)
		if m == 2 {
			copy(dst[4:8], src[12:16])
		}
	}
}

func float(b []byte) float32 { return math.Float32frombits(binary.LittleEndian.Uint32(b)) }

func putFloat(b []byte, v float32) { binary.LittleEndian.PutUint32(b, math.Float32bits(v)) }

// RGB is the step `rgb`: what torchvision's ImageFolder makes of every file that it reads.
func RGB() *transcode.Kind {
	return &transcode.Kind{
		Name: "rgb", Brief: "three channels of 8 bits, as Pillow's convert('RGB'), without alpha; says that all samples are pictures",
		From: transcode.Picture, ID: "rgb1", Effect: transcode.Lossy, Pictures: true,
		Shape: func(in transcode.Shape, _ int) (transcode.Shape, bool) {
			out := in
			out.Mode, out.Type, out.Transparent = transcode.ModeRGB, transcode.Uint8, false
			return out, in.Mode != transcode.ModeNone && out != in
		},
		Apply: func(_ context.Context, in transcode.Payload, _ transcode.Call) (transcode.Payload, error) {
			return transcode.Payload{Pixels: toRGB(in.Pixels, in.Shape.Format)}, nil
		},
	}
}

// toRGB makes RGB of a picture of any mode, and drops alpha. Of colours that have 16 bits Pillow
// takes the upper 8, or rounds in PPM files; grey of 16 bits it cuts off at 255.
func toRGB(px *transcode.Pixels, from transcode.Format) *transcode.Pixels {
	switch px.Mode {
	case transcode.ModeP:
		return toMode(px, transcode.ModeRGB)
	case transcode.ModeBit:
		px = toMode(px, transcode.ModeL)
	}
	src, pixel, next := px.Pix, px.Mode.Channels(), 1
	if px.Type == transcode.Uint16 {
		src = make([]byte, len(px.Pix)/2)
		for i := range src {
			v := uint32(binary.LittleEndian.Uint16(px.Pix[2*i:]))
			switch {
			case px.Mode == transcode.ModeI16:
				v = min(v, 255)
			case from == transcode.PNM:
				v = (v + 128) / 257
			default:
				v >>= 8
			}
			src[i] = byte(v)
		}
	}
	if pixel < 3 {
		next = 0 // one value for all colours
	}
	out := *px
	out.Mode, out.Type = transcode.ModeRGB, transcode.Uint8
	out.Pix = make([]byte, out.Len())
	for dst := out.Pix; len(dst) >= 3; dst, src = dst[3:], src[pixel:] {
		dst[0], dst[1], dst[2] = src[0], src[next], src[2*next]
	}
	return &out
}

// Center is the step `center`: values from -1 to 1.
func Center() *transcode.Kind {
	return &transcode.Kind{
		Name: "center", Brief: "float32 from -1 to 1: value / 127.5 - 1, or / 32767.5 at 16 bits",
		From: transcode.Picture, To: transcode.Tensor, ID: "center1", Effect: transcode.Lossy,
		Shape: func(in transcode.Shape, _ int) (transcode.Shape, bool) {
			out := in
			if in.Type == transcode.Uint8 {
				var ok bool
				if out, ok = mixed(in); !ok {
					return in, false
				}
			}
			out.Type, out.Stage = transcode.Float32, transcode.Tensor
			return out, true
		},
		Apply: func(_ context.Context, in transcode.Payload, _ transcode.Call) (transcode.Payload, error) {
			px := in.Pixels
			middle := float32(32767.5)
			if px.Type == transcode.Uint8 {
				px = toMode(px, mixable(px.Mode, in.Shape.Transparent))
				middle = 127.5
			}
			return transcode.Payload{Pixels: toFloat(px, func(v float32) float32 { return float32(v/middle) - 1 })}, nil
		},
	}
}

// Float32 is the step `float32`: the same values as float32.
func Float32() *transcode.Kind {
	return &transcode.Kind{
		Name: "float32", Brief: "the same values as float32, as NumPy's astype",
		From: transcode.Picture, To: transcode.Tensor, ID: "float321",
		Shape: func(in transcode.Shape, _ int) (transcode.Shape, bool) {
			out := in
			out.Type, out.Stage = transcode.Float32, transcode.Tensor
			return out, true
		},
		Apply: func(_ context.Context, in transcode.Payload, _ transcode.Call) (transcode.Payload, error) {
			return transcode.Payload{Pixels: toFloat(in.Pixels, func(v float32) float32 { return v })}, nil
		},
	}
}

// toFloat makes a tensor of f of the values of px.
func toFloat(px *transcode.Pixels, f func(float32) float32) *transcode.Pixels {
	out := *px
	out.Type = transcode.Float32
	out.Pix = make([]byte, out.Len())
	if px.Type == transcode.Uint16 {
		for i := 0; i+1 < len(px.Pix); i += 2 {
			putFloat(out.Pix[2*i:], f(float32(binary.LittleEndian.Uint16(px.Pix[i:]))))
		}
		return &out
	}
	var table [256]uint32
	for v := range table {
		table[v] = math.Float32bits(f(float32(v)))
	}
	dst := out.Pix
	for _, v := range px.Pix {
		binary.LittleEndian.PutUint32(dst, table[v])
		dst = dst[4:]
	}
	return &out
}

// CHW is the step `chw`: channel by channel.
func CHW() *transcode.Kind {
	return &transcode.Kind{
		Name: "chw", Brief: "channel by channel: (channels, height, width), as PyTorch wants it",
		From: transcode.Picture | transcode.Tensor, To: transcode.Planes, ID: "chw1", Planar: true,
		Shape: func(in transcode.Shape, _ int) (transcode.Shape, bool) {
			out := in
			out.Stage = transcode.Planes
			return out, true
		},
		Apply: func(_ context.Context, in transcode.Payload, _ transcode.Call) (transcode.Payload, error) {
			return transcode.Payload{Pixels: planar(in.Pixels)}, nil
		},
	}
}

// planar puts the channels of px one after another.
func planar(px *transcode.Pixels) *transcode.Pixels {
	out := *px
	out.Planar = true
	channels, size := px.Mode.Channels(), px.Type.Size()
	if channels == 1 {
		return &out
	}
	out.Pix = make([]byte, len(px.Pix))
	plane := len(px.Pix) / channels
	for c := range channels {
		dst, src := out.Pix[c*plane:(c+1)*plane], px.Pix[c*size:]
		switch size {
		case 1:
			for i := range dst {
				dst[i] = src[i*channels]
			}
		case 2:
			for i := 0; i+2 <= len(dst); i += 2 {
				binary.LittleEndian.PutUint16(dst[i:], binary.LittleEndian.Uint16(src[i*channels:]))
			}
		default:
			for i := 0; i+4 <= len(dst); i += 4 {
				binary.LittleEndian.PutUint32(dst[i:], binary.LittleEndian.Uint32(src[i*channels:]))
			}
		}
	}
	return &out
}

// NPY is the step `npy`.
func NPY() *transcode.Kind {
	return &transcode.Kind{
		Name: "npy", Brief: "NumPy array: what np.asarray gives of the picture",
		From: transcode.Picture | transcode.Tensor | transcode.Planes, To: transcode.File, ID: "npy1",
		Format: transcode.NPY, Ext: "npy",
		Shape: npyShape, Size: npySize, Frame: npyFrame,
		Apply: transcode.Encoding(EncodeNPY),
	}
}

// npyShape accepts every picture: an array holds numbers, whatever they mean.
func npyShape(in transcode.Shape, _ int) (transcode.Shape, bool) {
	out := in
	out.Format, out.Stage = transcode.NPY, transcode.File
	return out, in.Mode != transcode.ModeNone
}

// appendNPYHeader appends what precedes the values of px, of which it reads all
// but Pix.
func appendNPYHeader(b []byte, px *transcode.Pixels) []byte {
	dtype := transcode.DType(px.Type, px.Mode)
	switch c := px.Mode.Channels(); {
	case px.Planar:
		return transcode.AppendArrayHeader(b, dtype, c, px.Height, px.Width)
	case c == 1:
		return transcode.AppendArrayHeader(b, dtype, px.Height, px.Width)
	default:
		return transcode.AppendArrayHeader(b, dtype, px.Height, px.Width, c)
	}
}

// npySize is the length in bytes of the file that holds a picture of s.
func npySize(s transcode.Shape) int64 {
	return transcode.ArrayHeaderSize + int64(s.Width)*int64(s.Height)*int64(s.Mode.Channels()*s.Type.Size())
}

// npyFrame makes the file without its values.
func npyFrame(px *transcode.Pixels, alloc transcode.Alloc) ([]byte, transcode.Layout, bool) {
	b := alloc(transcode.ArrayHeaderSize + int64(px.Len()))
	appendNPYHeader(b[:0], px)
	at := transcode.LayoutOf(px)
	at.Base = transcode.ArrayHeaderSize
	return b, at, px.Mode != transcode.ModeNone
}

// EncodeNPY encodes a picture.
func EncodeNPY(px *transcode.Pixels) ([]byte, error) {
	if px.Mode == transcode.ModeNone || len(px.Pix) != px.Len() {
		return nil, transcode.Errorf(transcode.ErrInternal, "%d bytes of pixels for %v %dx%d", len(px.Pix), px.Mode, px.Width, px.Height)
	}
	b := appendNPYHeader(make([]byte, 0, transcode.ArrayHeaderSize+len(px.Pix)), px)
	return append(b, px.Pix...), nil
}
