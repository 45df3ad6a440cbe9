package packing

import (
	"cmp"
	"context"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/pipefs/pipefs/internal/mountd"
	"github.com/pipefs/pipefs/internal/remote"
	"github.com/pipefs/pipefs/internal/source"
	"github.com/pipefs/pipefs/internal/source/bucket"
	"github.com/pipefs/pipefs/internal/usage"
	"github.com/pipefs/pipefs/store"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/codecs"
	"github.com/pipefs/pipefs/transcode/jpeg"
	"github.com/pipefs/pipefs/transcode/l3"
)

// Making says how to plan the packing of a dataset, with the options that the store has where none
// were given. base is the store, nil where there is none yet; it and d are open until the plan is made.
func (c *Config) Making(ctx context.Context, base *store.Store, d source.Dataset) (*Making, error) {
	if remote.Is(c.Dataset) && len(mountd.ArchivesOf(d)) > 0 {
		return nil, usage.Errorf("%s: shards are planned of the objects of a bucket, not of archives in it; pipefs pack packs them on one machine", c.Dataset)
	}
	var has codecs.Options
	o := Options{
		RecordImages: max(c.RecordImages, 1), RecordBytes: 256 << 20, PackBytes: 256 << 20, Order: store.OrderPath,
		Originals: cmp.Or(c.Originals, "rebuild"), Represent: c.Represent, Limits: withDefaults(c.Limits), NoFollow: c.NoFollow,
	}
	if base != nil {
		st := base.Stats()
		has = codecs.OptionsOf(st.Bytes)
		if c.RecordImages == 0 {
			o.RecordImages = max(st.RecordImages, 1)
		}
		if st.Order != "" {
			o.Order, o.Seed = st.Order, st.Seed
		}
	}
	if c.Order != "" {
		o.Order, o.Seed = store.Order(c.Order), c.Seed
	}
	how := c.codecs(has)
	o.Scans, o.L3Mode, o.L3Patch = how.Cuts.Levels(), how.L3.Mode.String(), how.L3.Patch
	if err := c.HoldBuildDir(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(c.BuildDir, 0o700); err != nil {
		return nil, err
	}
	place, err := mountd.Connect(ctx, c.Remote, c.Store, c.Log)
	if err != nil {
		return nil, err
	}
	r := registryOf(&o)
	tree := Dataset{Dataset: c.what(d, r)}
	m := &Making{Base: base, Dataset: c.Dataset, Options: o, Temp: c.BuildDir, Place: place, Tree: tree, Current: tree.Current, Verbatim: tree.Verbatim}
	m.Steps, m.Decoders = stepsOf(r, o.Represent)
	return m, nil
}

// Worker opens what packing shards of a plan takes; what is stored is as the plan says. c.Dataset is
// where the dataset is on this machine. What Worker returns beside ends that. A pipefs that makes other
// bytes than the one that planned is an error of usage.
func (c *Config) Worker(ctx context.Context, p *Plan) (_ *Worker, done func(), err error) {
	c.Originals, c.Represent = p.Options.Originals, p.Options.Represent
	r := registryOf(&p.Options)
	steps, decoders := stepsOf(r, c.Represent)
	if names := slices.Concat(differing(steps, p.Steps), differing(decoders, p.Decoders)); len(names) > 0 {
		slices.Sort(names)
		return nil, nil, usage.Errorf("this pipefs makes other bytes than the one that planned (%s); pack all shards with the same version of pipefs, or plan again with this one", strings.Join(slices.Compact(names), ", "))
	}
	if err := c.HoldBuildDir(); err != nil {
		return nil, nil, err
	}
	if remote.Is(c.Dataset) != remote.Is(p.Dataset) {
		return nil, nil, usage.Errorf("the plan is of %s, which %s cannot take the place of: in one, versions of files are told apart as in the other they are not", p.Dataset, c.Dataset)
	}
	worker := &Worker{Plan: p, Build: c.BuildDir, Options: store.PackOptions{Workers: c.Workers, Logger: c.Log}}
	if remote.Is(c.Dataset) { // nothing is asked of a source.Dataset
		if worker.Objects, err = mountd.Connect(ctx, c.Remote, c.Dataset, c.Log); err != nil {
			return nil, nil, err
		}
		if c.Workers == 0 { // most of them wait for the network; what they take together is bounded
			worker.Options.Workers = max(16, 4*runtime.GOMAXPROCS(0))
		}
		what := c.what(nil, r)
		worker.Encoder, worker.Verbatim = what, what.Verbatim
		return worker, func() {}, nil
	}
	d, err := mountd.OpenDataset(ctx, c.Remote, c.Dataset, source.Options{NoFollow: p.Options.NoFollow, Log: c.Log}, bucket.Options{})
	if err != nil {
		return nil, nil, err
	}
	what := c.what(d, r)
	worker.Encoder, worker.Verbatim, worker.Directory = what, what.Verbatim, InDirectory(what)
	return worker, func() { _ = d.Close() }, nil
}

// withDefaults writes down limits that were not given: another version may have others.
func withDefaults(l transcode.Limits) transcode.Limits {
	l.MaxFile = cmp.Or(l.MaxFile, transcode.DefaultMaxFile)
	l.MaxPixels = cmp.Or(l.MaxPixels, transcode.DefaultMaxPixels)
	l.MaxScans = cmp.Or(l.MaxScans, jpeg.DefaultMaxScans)
	l.MaxSegments = cmp.Or(l.MaxSegments, jpeg.DefaultMaxSegments)
	return l
}

// registryOf makes files as a plan says.
func registryOf(o *Options) *transcode.Registry {
	how := codecs.Options{Cuts: jpeg.CutsAt(o.Scans...)}
	how.L3.Patch = o.L3Patch
	how.L3.Mode, _ = l3.ParseMode(o.L3Mode) // of another version: what it makes has another id
	return codecs.New(o.Limits, how)
}

// stepsOf are the implementations that what is packed depends on.
func stepsOf(r *transcode.Registry, represent string) (steps, decoders map[string]string) {
	all, decoders := r.Implementations()
	steps = map[string]string{}
	for _, k := range r.Kinds() {
		if k.Split != nil || k.Name == represent {
			steps[k.Name] = all[k.Name]
		}
	}
	return steps, decoders
}

// differing names the implementations that differ.
func differing(a, b map[string]string) (names []string) {
	all := maps.Clone(a)
	maps.Copy(all, b)
	for name := range all {
		if a[name] != b[name] {
			names = append(names, name)
		}
	}
	return names
}
