// Package codecs puts the usual registry together: the formats that samples come
// in, and the steps that views are made of. It is the one place that knows all
// codecs; a new one is added here.
package codecs

import (
	"slices"

	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/bmp"
	"github.com/pipefs/pipefs/transcode/gif"
	"github.com/pipefs/pipefs/transcode/jpeg"
	"github.com/pipefs/pipefs/transcode/l3"
	"github.com/pipefs/pipefs/transcode/png"
	"github.com/pipefs/pipefs/transcode/pnm"
	"github.com/pipefs/pipefs/transcode/raster"
	"github.com/pipefs/pipefs/transcode/tiff"
	"github.com/pipefs/pipefs/transcode/webp"
)

// Options of New: how files are written where there is a choice. The zero value
// is the usual one.
type Options struct {
	Cuts jpeg.Cuts  // the levels at which JPEG files can be cut
	L3   l3.Options // how L3 files are written
	// Backend decodes L3 files; nil is package l3.
	Backend l3.Backend
}

// Default returns the registry of all formats and steps. Building it opens no
// library and cannot fail.
func Default(lim transcode.Limits) *transcode.Registry { return New(lim, Options{}) }

// New is Default with options.
func New(lim transcode.Limits, o Options) *transcode.Registry {
	return transcode.NewRegistry(lim,
		[]transcode.Decoder{
			jpeg.Decoder{}, png.Decoder{}, bmp.Decoder{}, pnm.Decoder{},
			tiff.Decoder{}, webp.Decoder{}, gif.Decoder{}, l3.Decoder{Backend: o.Backend},
		},
		// In the order in which help lists them.
		slices.Concat(
			[]*transcode.Kind{jpeg.Scan(o.Cuts), jpeg.Baseline()},
			jpeg.Scaled(),
			[]*transcode.Kind{
				raster.UprightKind(), raster.Resize(), raster.Crop(), raster.Pad(),
				raster.RandomResizedCrop(), raster.RandomCrop(), raster.HFlip(),
			},
			raster.Recipes(),
			[]*transcode.Kind{
				raster.RGB(), raster.Grey(), raster.Center(), raster.Float32(), raster.CHW(),
				bmp.Kind(), pnm.Kind(), raster.NPY(), png.Kind(), l3.Kind(o.L3), raster.JPEG(),
			},
		))
}

// OptionsOf finds the options with which representations were made, given their
// keys and how many bytes each has: where there are several, those with most
// bytes.
func OptionsOf(bytes map[string]int64) (o Options) {
	var scans, files int64
	for key, n := range bytes {
		if cuts, ok := jpeg.CutsOf(key); ok && n > scans {
			o.Cuts, scans = cuts, n
		}
		if how, ok := l3.OptionsOf(key); ok && n > files {
			o.L3, files = how, n
		}
	}
	return o
}
