package webp

import (
	"image"

	"github.com/pipefs/pipefs/transcode"
)

// toRGB fills px with the colours of planes at 4:2:0 as libwebp does by default:
// each pixel mixes the four nearest chroma samples 9:3:3:1, in two rounded steps.
func toRGB(px *transcode.Pixels, m *image.YCbCr) error {
	width, height := px.Width, px.Height
	if m.Rect.Dx() < width || m.Rect.Dy() < height || m.SubsampleRatio != image.YCbCrSubsampleRatio420 {
		return transcode.Errorf(transcode.ErrBad, "WebP: planes of %v", m.Rect)
	}
	px.Pix = make([]byte, px.Len())
	channels := px.Mode.Channels()
	half := (width + 1) / 2
	us, vs := make([]byte, width), make([]byte, width)
	for y := range height {
		// The chroma row that is nearer, and the one on the other side of the
		// pixel; at the edges they are the same.
		near := y / 2
		far := near - 1
		if y%2 == 1 {
			far = near + 1
		}
		far = min(max(far, 0), (height+1)/2-1)
		row := func(plane []byte, at int) []byte { return plane[at*m.CStride:][:half] }
		upsample(us, row(m.Cb, near), row(m.Cb, far))
		upsample(vs, row(m.Cr, near), row(m.Cr, far))
		luma := m.Y[y*m.YStride:][:width]
		dst := px.Pix[y*px.RowBytes():]
		for x, l := range luma {
			d := dst[x*channels : x*channels+channels]
			d[0], d[1], d[2] = rgb(int(l), int(us[x]), int(vs[x]))
		}
	}
	return nil
}

// upsample doubles a row of chroma. near and far are the two rows around the
// row of pixels.
func upsample(dst, near, far []byte) {
	n := len(near)
	dst[0] = byte((3*int(near[0]) + int(far[0]) + 2) >> 2)
	for x := 1; x < n; x++ {
		a, b := int(near[x-1]), int(near[x])
		c, d := int(far[x-1]), int(far[x])
		sum := a + b + c + d + 8
		// The diagonals that do not go through the sample that weighs 9.
		left, right := (sum+2*(b+c))>>3, (sum+2*(a+d))>>3
		dst[2*x-1] = byte((left + a) >> 1)
		if 2*x < len(dst) {
			dst[2*x] = byte((right + b) >> 1)
		}
	}
	if last := len(dst) - 1; last%2 == 1 {
		dst[last] = byte((3*int(near[n-1]) + int(far[n-1]) + 2) >> 2)
	}
}

// rgb converts in libwebp's fixed point: BT.601, studio range, six bits after
// the point.
func rgb(y, u, v int) (r, g, b byte) {
	luma := y * 19077 >> 8
	return clip(luma + v*26149>>8 - 14234), clip(luma - u*6419>>8 - v*13320>>8 + 8708), clip(luma + u*33050>>8 - 17685)
}

func clip(v int) byte { return byte(min(max(v, 0)>>6, 255)) }
