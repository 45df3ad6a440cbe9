package l3gpu

import "github.com/pipefs/pipefs/transcode"

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
// values of the sample's channel; each of the two operations is rounded to 32 bits, and for
// Float16 the sum once more.
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
