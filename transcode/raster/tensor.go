package raster

import (
	"context"
	"encoding/binary"
	"math"

	"github.com/pipefs/pipefs/transcode"
)

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
