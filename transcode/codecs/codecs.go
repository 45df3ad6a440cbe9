package codecs

import (
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/bmp"
	"github.com/pipefs/pipefs/transcode/gif"
	"github.com/pipefs/pipefs/transcode/npy"
	"github.com/pipefs/pipefs/transcode/png"
	"github.com/pipefs/pipefs/transcode/pnm"
	"github.com/pipefs/pipefs/transcode/raster"
	"github.com/pipefs/pipefs/transcode/tiff"
	"github.com/pipefs/pipefs/transcode/turbo"
	"github.com/pipefs/pipefs/transcode/webp"
)

// Default returns the registry of all formats and steps. Building it opens no
// library and cannot fail; turbo.Available tells whether JPEG files can be
// decoded.
func Default(lim transcode.Limits) *transcode.Registry {
	return transcode.NewRegistry(lim,
		[]transcode.Decoder{
			turbo.Decoder{}, png.Decoder{}, bmp.Decoder{}, pnm.Decoder{},
			tiff.Decoder{}, webp.Decoder{}, gif.Decoder{},
		},
		// In the order in which help lists them.
		[]*transcode.Kind{
			scan(),
			raster.UprightKind(), raster.Resize(), raster.Crop(), raster.Grey(),
			raster.Center(), raster.Float32(), raster.CHW(),
			bmp.Kind(), pnm.Kind(), npy.Kind(), png.Kind(), raster.JPEG(),
		})
}
