package codecs

import (
	"slices"

	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/bmp"
	"github.com/pipefs/pipefs/transcode/gif"
	"github.com/pipefs/pipefs/transcode/jpeg"
	"github.com/pipefs/pipefs/transcode/jpeg/steps"
	"github.com/pipefs/pipefs/transcode/npy"
	"github.com/pipefs/pipefs/transcode/png"
	"github.com/pipefs/pipefs/transcode/pnm"
	"github.com/pipefs/pipefs/transcode/raster"
	"github.com/pipefs/pipefs/transcode/tiff"
	"github.com/pipefs/pipefs/transcode/webp"
)

// Default returns the registry of all formats and steps. Building it opens no
// library and cannot fail.
func Default(lim transcode.Limits) *transcode.Registry { return WithCuts(lim, 0) }

// WithCuts is Default for files that are cut at these levels only.
func WithCuts(lim transcode.Limits, cuts jpeg.Cuts) *transcode.Registry {
	return transcode.NewRegistry(lim,
		[]transcode.Decoder{
			steps.Decoder{}, png.Decoder{}, bmp.Decoder{}, pnm.Decoder{},
			tiff.Decoder{}, webp.Decoder{}, gif.Decoder{},
		},
		// In the order in which help lists them.
		slices.Concat(
			[]*transcode.Kind{steps.Scan(cuts), steps.Baseline()},
			steps.Scaled(),
			[]*transcode.Kind{
				raster.UprightKind(), raster.Resize(), raster.Crop(), raster.Grey(),
				raster.Center(), raster.Float32(), raster.CHW(),
				bmp.Kind(), pnm.Kind(), npy.Kind(), png.Kind(), raster.JPEG(),
			},
		))
}
