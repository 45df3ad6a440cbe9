package webp

import (
	"bytes"
	"context"
	"errors"
	"image"
	"io"

	"golang.org/x/image/vp8"
	"golang.org/x/image/vp8l"
	"golang.org/x/image/webp"

	"github.com/pipefs/pipefs/transcode"
)

// Scratch implements [transcode.Scratcher]: the picture as it is before it is copied.
func (Decoder) Scratch(_ []byte, info transcode.Info, _ bool) int64 {
	pixels := int64(info.Width) * int64(info.Height)
	if info.Lossy { // YCbCr, and alpha
		return pixels * 5 / 2
	}
	return 4 * pixels
}

// Decode decodes a still picture.
func (Decoder) Decode(_ context.Context, src []byte, lim transcode.Limits) (*transcode.Pixels, error) {
	h, err := parse(bytes.NewReader(src), int64(len(src)), lim, true)
	if err != nil {
		return nil, err
	}
	if h.animated {
		return nil, transcode.Errorf(transcode.ErrUnsupported, "animated WebP")
	}
	px := &transcode.Pixels{Width: h.width, Height: h.height, Mode: h.mode()}
	px.Meta = transcode.Metadata{EXIF: h.exif, ICC: h.icc, Orientation: transcode.EXIFOrientation(h.exif)}
	switch {
	case h.lossless:
		err = lossless(px, h)
	case h.alpha:
		err = withAlpha(px, src)
	default:
		err = lossy(px, h)
	}
	if err != nil {
		return nil, err
	}
	return px, nil
}

// streamError classifies an error of x/image.
func streamError(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return transcode.Errorf(transcode.ErrTruncated, "WebP: %v", err)
	}
	return transcode.Errorf(transcode.ErrBad, "WebP: %v", err)
}

func lossless(px *transcode.Pixels, h *header) error {
	img, err := vp8l.Decode(bytes.NewReader(h.data))
	if err != nil {
		return streamError(err)
	}
	m, ok := img.(*image.NRGBA)
	if !ok || m.Rect != image.Rect(0, 0, px.Width, px.Height) {
		return transcode.Errorf(transcode.ErrBad, "WebP: %T of %v", img, img.Bounds())
	}
	if px.Mode == transcode.ModeRGBA {
		px.Pix = m.Pix[:px.Len()]
		return nil
	}
	px.Pix = make([]byte, px.Len())
	for dst, src := px.Pix, m.Pix; len(dst) >= 3 && len(src) >= 4; dst, src = dst[3:], src[4:] {
		dst[0], dst[1], dst[2] = src[0], src[1], src[2]
	}
	return nil
}

func lossy(px *transcode.Pixels, h *header) error {
	d := vp8.NewDecoder()
	d.Init(bytes.NewReader(h.data), len(h.data))
	if _, err := d.DecodeFrameHeader(); err != nil {
		return streamError(err)
	}
	m, err := d.DecodeFrame()
	if err != nil {
		return streamError(err)
	}
	return toRGB(px, m)
}

// withAlpha leaves the alpha, a format of its own, to package x/image/webp.
func withAlpha(px *transcode.Pixels, src []byte) error {
	img, err := webp.Decode(bytes.NewReader(src))
	if err != nil {
		return streamError(err)
	}
	m, ok := img.(*image.NYCbCrA)
	if !ok {
		return transcode.Errorf(transcode.ErrBad, "WebP: %T where there should be alpha", img)
	}
	if err := toRGB(px, &m.YCbCr); err != nil {
		return err
	}
	for y := range px.Height {
		for x := range px.Width {
			px.Pix[(y*px.Width+x)*4+3] = m.A[y*m.AStride+x]
		}
	}
	return nil
}
