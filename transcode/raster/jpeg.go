package raster

import (
	"bytes"
	"context"
	"image"
	"image/jpeg"
	"runtime"
	"strings"

	"github.com/pipefs/pipefs/transcode"
)

// maxSegment is the most that a JPEG segment holds, in bytes.
const maxSegment = 65533

// JPEG is the step `jpeg`: lossy, of the quality in the argument. The encoder is
// Go's own, so that all machines make the same bytes; they depend on Go's
// version, which therefore is part of the step's ID.
func JPEG() *transcode.Kind {
	return &transcode.Kind{
		Name: "jpeg", Min: 1, Max: 100,
		Brief: "JPEG of this quality, 4:2:0; grey stays grey",
		From:  transcode.Picture, To: transcode.File, Effect: transcode.Lossy,
		ID:     "stdjpeg1/" + strings.NewReplacer(" ", "+", ",", "+").Replace(runtime.Version()),
		Format: transcode.JPEG, Ext: "jpg",
		Shape: func(in transcode.Shape, _ int) (transcode.Shape, bool) {
			out := in
			out.Format, out.Stage = transcode.JPEG, transcode.File
			return out, (in.Mode == transcode.ModeRGB || in.Mode == transcode.ModeL) && !in.Transparent &&
				in.Type == transcode.Uint8 && in.Width <= 65535 && in.Height <= 65535
		},
		Apply: func(_ context.Context, in transcode.Payload, c transcode.Call) (transcode.Payload, error) {
			b, err := EncodeJPEG(in.Pixels, c.Arg)
			return transcode.Payload{Bytes: b}, err
		},
	}
}

// EncodeJPEG encodes a picture of mode RGB or L with a quality from 1 to 100,
// and the metadata that fits.
func EncodeJPEG(px *transcode.Pixels, quality int) ([]byte, error) {
	if len(px.Pix) != px.Len() || px.Type != transcode.Uint8 || px.Planar {
		return nil, transcode.Errorf(transcode.ErrInternal, "%d bytes of pixels for %v %dx%d", len(px.Pix), px.Mode, px.Width, px.Height)
	}
	bounds := image.Rect(0, 0, px.Width, px.Height)
	var img image.Image
	switch px.Mode {
	case transcode.ModeL:
		img = &image.Gray{Pix: px.Pix, Stride: px.Width, Rect: bounds}
	case transcode.ModeRGB:
		rgba := image.NewRGBA(bounds)
		dst := rgba.Pix
		for src := px.Pix; len(src) >= 3 && len(dst) >= 4; src, dst = src[3:], dst[4:] {
			dst[0], dst[1], dst[2], dst[3] = src[0], src[1], src[2], 255
		}
		img = rgba
	default:
		return nil, transcode.Errorf(transcode.ErrUnsupported, "a JPEG of mode %v", px.Mode)
	}
	out := &bytes.Buffer{}
	out.Write([]byte{0xff, 0xd8})
	writeMetadata(out, px.Meta)
	// The encoder begins with SOI. Metadata belongs right behind it, so what was
	// written takes its place.
	tail := &skipWriter{out: out, skip: 2}
	if err := jpeg.Encode(tail, img, &jpeg.Options{Quality: quality}); err != nil {
		return nil, transcode.Errorf(transcode.ErrUnsupported, "%v", err)
	}
	return out.Bytes(), nil
}

// skipWriter drops the first bytes.
type skipWriter struct {
	out  *bytes.Buffer
	skip int
}

func (w *skipWriter) Write(b []byte) (int, error) {
	n := min(w.skip, len(b))
	w.skip -= n
	w.out.Write(b[n:])
	return len(b), nil
}

// writeMetadata writes APP1 and APP2. EXIF that fits no segment came from a
// format that holds more, and is left out.
func writeMetadata(out *bytes.Buffer, meta transcode.Metadata) {
	segment := func(marker byte, introduction string, data []byte) {
		length := 2 + len(introduction) + len(data)
		out.Write([]byte{0xff, marker, byte(length >> 8), byte(length)})
		out.WriteString(introduction)
		out.Write(data)
	}
	const exif = "Exif\x00\x00"
	if n := len(meta.EXIF); n > 0 && n <= maxSegment-len(exif) {
		segment(0xe1, exif, meta.EXIF)
	}
	const icc, room = "ICC_PROFILE\x00", maxSegment - 14
	count := (len(meta.ICC) + room - 1) / room
	if count > 255 {
		return
	}
	for i := range count {
		part := meta.ICC[i*room : min((i+1)*room, len(meta.ICC))]
		segment(0xe2, icc+string([]byte{byte(i + 1), byte(count)}), part)
	}
}
