package raster

import (
	"context"
	"encoding/binary"
	"math"

	"github.com/pipefs/pipefs/transcode"
)

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
