package pictures

import (
	"encoding/binary"
	"math/rand/v2"

	"github.com/pipefs/pipefs/transcode"
)

// L3Modes are the modes that L3 files have in version 2.
var L3Modes = []transcode.Mode{
	transcode.ModeL, transcode.ModeLA, transcode.ModeRGB, transcode.ModeRGBA,
	transcode.ModeI16, transcode.ModeLA16, transcode.ModeRGB16, transcode.ModeRGBA16,
}

// Pixels draws a picture of one of these modes: smooth, with noise and edges, and here and
// there a sample that nothing predicts. The same arguments give the same picture.
func Pixels(mode transcode.Mode, width, height int) *transcode.Pixels {
	rng := rand.New(rand.NewPCG(uint64(width), uint64(height)<<8|uint64(mode)))
	px := &transcode.Pixels{Width: width, Height: height, Mode: mode}
	if mode.Depth() == 16 {
		px.Type = transcode.Uint16
	}
	for y := range height {
		for x := range width {
			for c := range mode.Channels() {
				v := 40*c + 3*x + 2*y + rng.IntN(9)
				if (x/17+y/13)%3 == 0 {
					v += 90
				}
				if rng.IntN(500) == 0 {
					v += rng.IntN(256)
				}
				if mode.Depth() == 16 {
					px.Pix = binary.LittleEndian.AppendUint16(px.Pix, uint16(v*211))
				} else {
					px.Pix = append(px.Pix, byte(v))
				}
			}
		}
	}
	return px
}
