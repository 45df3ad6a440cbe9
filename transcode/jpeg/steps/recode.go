package steps

import (
	"context"

	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/jpeg"
	"github.com/pipefs/pipefs/transcode/raster"
)

// Baseline is the step `baseline`.
func Baseline() *transcode.Kind {
	return &transcode.Kind{
		Name:  "baseline",
		Brief: "the JPEG as a sequential file, which some decoders read faster than a progressive one",
		From:  transcode.Source, To: transcode.Source, ID: "jpeg1",
		Shape: func(in transcode.Shape, _ int) (transcode.Shape, bool) { return in, transcodable(in) },
		Apply: func(_ context.Context, in transcode.Payload, c transcode.Call) (transcode.Payload, error) {
			out, err := jpeg.Sequential(in.Bytes, jpeg.LimitsOf(c.Limits))
			return transcode.Payload{Bytes: out}, err
		},
	}
}

// Scaled returns the steps `half`, `quarter` and `eighth`.
func Scaled() []*transcode.Kind {
	return []*transcode.Kind{
		scaled("half", "half", 2), scaled("quarter", "a quarter", 4), scaled("eighth", "an eighth", 8),
	}
}

func scaled(name, text string, scale int) *transcode.Kind {
	return &transcode.Kind{
		Name:  name,
		Brief: "the JPEG decoded to " + text + " of its width and height, as libjpeg's scaling does; other formats are scaled to that as resize does it",
		From:  transcode.Source, To: transcode.Picture, ID: "libjpeg1", Effect: transcode.Resampling,
		Follow: raster.Scaling(name, "bilinear1", func(width, height, _ int) (int, int) {
			return jpeg.ScaledSize(width, height, scale)
		}),
		Shape: func(in transcode.Shape, _ int) (transcode.Shape, bool) {
			out := in
			out.Stage, out.Type, out.Scannable = transcode.Picture, transcode.Uint8, false
			out.Width, out.Height = jpeg.ScaledSize(in.Width, in.Height, scale)
			// Labels cannot be blended, and a reduced transform blends.
			return out, transcodable(in) && in.Mode != transcode.ModeNone && !in.Mask
		},
		Apply: func(_ context.Context, in transcode.Payload, c transcode.Call) (transcode.Payload, error) {
			h, err := header(in.Bytes, c.Limits)
			if err != nil {
				return transcode.Payload{}, err
			}
			px, err := decode(h, in.Bytes, scale, c.Limits)
			return transcode.Payload{Pixels: px}, err
		},
	}
}
