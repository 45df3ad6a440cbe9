package l3gpu

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/l3"
)

// Type is the type of the numbers that samples become.
type Type uint8

// The types: samples as they are stored, in 8 bits or 16, or floating point.
const (
	Stored Type = iota
	Float32
	Float16
)

func (t Type) String() string { return [...]string{"stored", "float32", "float16"}[t] }

// size is how many bytes a number takes that is made of a sample of so many bits.
func (t Type) size(depth int) int {
	switch t {
	case Float32:
		return 4
	case Float16:
		return 2
	}
	return depth / 8
}

// Numbers says what samples become. A float is sample·Scale + Bias, with the
// values of the sample's channel; each of the two operations is rounded to 32 bits,
// so that a GPU and a processor give the same numbers.
type Numbers struct {
	Type        Type
	Scale, Bias []float32 // for each channel; none is 1 and 0
}

// check returns an error unless the numbers can be made of pictures of a mode.
func (n Numbers) check(m transcode.Mode) error {
	if n.Type > Float16 {
		return transcode.Errorf(transcode.ErrInternal, "there is no type %d of numbers", n.Type)
	}
	for _, list := range [][]float32{n.Scale, n.Bias} {
		if len(list) != 0 && (len(list) != m.Channels() || n.Type == Stored) {
			return transcode.Errorf(transcode.ErrInternal, "%d factors for the %d channels of a picture as %v", len(list), m.Channels(), n.Type)
		}
	}
	return nil
}

// of are scale and bias of a channel.
func (n Numbers) of(channel int) (scale, bias float32) {
	scale = 1
	if len(n.Scale) > 0 {
		scale = n.Scale[channel]
	}
	if len(n.Bias) > 0 {
		bias = n.Bias[channel]
	}
	return scale, bias
}

// decode decodes a picture to numbers on the processor.
func (n Numbers) decode(s *l3.Samples, dst l3.Target) error {
	if n.Type == Stored {
		return s.Decode(dst)
	}
	channels, wide := s.Mode.Channels(), s.Mode.Depth() == 16
	if err := dst.Check(s.Width, s.Height, channels, n.Type.size(0)); err != nil {
		return transcode.Errorf(transcode.ErrInternal, "L3: %v", err)
	}
	size := s.Mode.Depth() / 8
	from := l3.Interleaved(make([]byte, s.Width*s.Height*channels*size), s.Width, channels, size)
	if err := s.Decode(from); err != nil {
		return err
	}
	for c := range channels {
		scale, bias := n.of(c)
		for y := range s.Height {
			a, b := from.At(0, y, c), dst.At(0, y, c)
			for range s.Width {
				v := uint16(from.Pix[a])
				if wide {
					v = binary.LittleEndian.Uint16(from.Pix[a:])
				}
				// The conversion keeps the two from becoming one operation.
				f := float32(float32(v)*scale) + bias
				if n.Type == Float32 {
					binary.LittleEndian.PutUint32(dst.Pix[b:], math.Float32bits(f))
				} else {
					binary.LittleEndian.PutUint16(dst.Pix[b:], half(f))
				}
				a, b = a+from.Pixel, b+dst.Pixel
			}
		}
	}
	return nil
}

// half rounds to the nearest number of 16 bits, to the even one of two.
func half(f float32) uint16 {
	bits := math.Float32bits(f)
	sign := uint16(bits >> 16 & 0x8000)
	magnitude := math.Abs(float64(f))
	switch {
	case f != f:
		return 0x7fff // what cvt.rn.f16 makes of it
	case magnitude >= 65520:
		return sign | 0x7c00
	case magnitude < 0x1p-14:
		// Subnormal numbers are multiples of 2^-24; the first normal one comes after
		// the last of them.
		return sign | uint16(math.RoundToEven(magnitude*0x1p24))
	}
	// The bits that are cut off decide; a carry into the exponent is right as well.
	rest := bits&0x7fffffff - (127-15)<<23
	return sign | uint16((rest+0xfff+rest>>13&1)>>13)
}

// BatchOptions say how a batch lies in one piece of memory: one picture after the
// other, each HWC, or CHW if Planar.
type BatchOptions struct {
	Numbers
	Planar bool
}

// shape is what all pictures of a batch have in common.
type shape struct {
	width, height, channels, size int // size of a number
}

func (s shape) bytes() int { return s.width * s.height * s.channels * s.size }

// shapeOf checks that a batch can be one piece.
func (o BatchOptions) shapeOf(samples []*l3.Samples) (shape, error) {
	if len(samples) == 0 {
		return shape{}, nil
	}
	first := samples[0]
	for i, s := range samples {
		if s.Width != first.Width || s.Height != first.Height || s.Mode != first.Mode {
			return shape{}, transcode.Errorf(transcode.ErrUnsupported, "pictures of one batch differ: the first is %d×%d %v, number %d is %d×%d %v",
				first.Width, first.Height, first.Mode, i, s.Width, s.Height, s.Mode)
		}
	}
	if err := o.check(first.Mode); err != nil {
		return shape{}, err
	}
	return shape{first.Width, first.Height, first.Mode.Channels(), o.Type.size(first.Mode.Depth())}, nil
}

// target is picture i of a batch.
func (o BatchOptions) target(pix []byte, s shape, i int) l3.Target {
	t := l3.Interleaved(pix, s.width, s.channels, s.size)
	if o.Planar {
		t = l3.Planar(pix, s.width, s.height, s.size)
	}
	t.Base = i * s.bytes()
	return t
}

// fits checks the memory of a batch.
func (s shape) fits(pix []byte, n int) error {
	if len(pix) < n*s.bytes() {
		return fmt.Errorf("%d pictures of %d bytes do not fit %d bytes", n, s.bytes(), len(pix))
	}
	return nil
}
