package l3

import "github.com/pipefs/pipefs/transcode/l3/internal/layout"

// Target is memory for the samples of a picture. Sample c of the pixel at x, y
// begins at Base + y*Row + x*Pixel + c*Channel, all in bytes.
type Target = layout.Target

// Interleaved is the layout of transcode.Pixels: HWC. size is the number of bytes
// a sample takes.
func Interleaved(pix []byte, width, channels, size int) Target {
	return layout.Interleaved(pix, width, channels, size)
}

// Planar is channel by channel: CHW.
func Planar(pix []byte, width, height, size int) Target {
	return layout.Planar(pix, width, height, size)
}
