package main

import (
	"slices"

	"github.com/pipefs/pipefs/store"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/codecs"
	"github.com/pipefs/pipefs/transcode/jpeg"
	"github.com/pipefs/pipefs/transcode/jpeg/steps"
	"github.com/pipefs/pipefs/transcode/l3"
)

// registry knows all formats and steps.
func registry(l transcode.Limits) *transcode.Registry { return codecs.Default(l) }

// registryOf is registry for files that are made as those of a store are; nil is
// no store.
func registryOf(l transcode.Limits, s *store.Store) *transcode.Registry {
	return registryOn(l, s, nil)
}

// registryOn is registryOf with a backend for L3 files; nil is the processor.
func registryOn(l transcode.Limits, s *store.Store, b l3.Backend) *transcode.Registry {
	o := madeAs(s)
	o.Backend = b
	return codecs.New(l, o)
}

// registryWith is registry for L3 files that are written in a way of their own.
func registryWith(l transcode.Limits, how l3Config) *transcode.Registry {
	return codecs.New(l, codecs.Options{L3: how.Options})
}

// madeAs are the options with which a store was packed.
func madeAs(s *store.Store) codecs.Options {
	if s == nil {
		return codecs.Options{}
	}
	return codecs.OptionsOf(s.Stats().Bytes)
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

// kindOf finds a step by its name, nil where there is none.
func kindOf(r *transcode.Registry, name string) *transcode.Kind {
	kinds := r.Kinds()
	i := slices.IndexFunc(kinds, func(k *transcode.Kind) bool { return k.Name == name })
	if i < 0 {
		return nil
	}
	return kinds[i]
}

// libraryUsable says why libturbojpeg is not asked for pixels that our own decoder
// does not know.
func libraryUsable() error { return steps.Library() }
