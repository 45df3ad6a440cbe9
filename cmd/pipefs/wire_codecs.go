package main

import (
	"github.com/pipefs/pipefs/store"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/codecs"
	"github.com/pipefs/pipefs/transcode/jpeg"
	"github.com/pipefs/pipefs/transcode/jpeg/steps"
)

// registry knows all formats and steps.
func registry(l transcode.Limits) *transcode.Registry { return codecs.Default(l) }

// registryOf is registry for JPEG files that are cut as those of a store are; nil
// is no store.
func registryOf(l transcode.Limits, s *store.Store) *transcode.Registry {
	return codecs.WithCuts(l, cutsOf(s))
}

// cutsOf are the fidelities at which a store cuts JPEG files: those of most of
// its bytes, since an interrupted packing may have left others.
func cutsOf(s *store.Store) (cuts jpeg.Cuts) {
	if s == nil {
		return 0
	}
	most := int64(0)
	for key, bytes := range s.Stats().Bytes {
		if c, ok := steps.CutsOf(key); ok && bytes > most {
			cuts, most = c, bytes
		}
	}
	return cuts
}

// levelsOf are the fidelities that a registry tells apart.
func levelsOf(r *transcode.Registry) []int {
	var cuts jpeg.Cuts
	for _, k := range r.Kinds() {
		if c, ok := steps.CutsOf(transcode.SplitKey(k)); ok {
			cuts = c
		}
	}
	return cuts.Levels()
}

// libraryUsable says why libturbojpeg is not asked for pixels that our own decoder
// does not know.
func libraryUsable() error { return steps.Library() }
