package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"

	"github.com/pipefs/pipefs/internal/exit"
	"github.com/pipefs/pipefs/internal/mountd"
	"github.com/pipefs/pipefs/internal/mounts"
	"github.com/pipefs/pipefs/internal/remote"
	"github.com/pipefs/pipefs/internal/shard"
	"github.com/pipefs/pipefs/internal/source"
	"github.com/pipefs/pipefs/store"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/codecs"
	"github.com/pipefs/pipefs/transcode/jpeg"
	"github.com/pipefs/pipefs/transcode/l3"
)

// planConfig is what a plan is made of.
type planConfig struct {
	packConfig
	shards     int
	shardBytes int64
	asJSON     bool
	reach      []*option // how the store is reached
}

func planCommand(env *environ) *command {
	c := &planConfig{packConfig: packConfig{seed: -1}, shardBytes: 256e6}
	c.reach = remoteOptions(&c.remote)
	what, seldom := storedOptions(&c.packConfig)
	return &command{
		name: "plan", args: "DATASET STORE", min: 2, max: 2,
		brief: "divide the packing of a dataset among machines",
		about: "The dataset is listed once, and what the store lacks of it is cut into shards: a plan, one object of the store that never changes. Any machine packs any shard (pipefs pack --plan URL --shard I), any number of times, also at once: the bytes are the same whoever makes them. A shard that is done has a marker in the store, and is not packed again. Whatever runs many processes can run them: a job array of Slurm, an indexed job of Kubernetes, AWS Batch, Ray. When all are done, one machine commits the plan (pipefs commit URL), and all of it is in the store at once.\n" +
			"Planning again adds what is new, what changed, and what is gone. The same dataset and options make the same plan.",
		examples: []example{
			{"pipefs plan s3://bucket/imagenet s3://bucket/in.store", "shards of 256MB of the dataset"},
			{"pipefs plan --shards 1000 --record-images 1024 /nfs/imagenet /nfs/in.store", "as many shards as there are tasks"},
			{"pipefs pack --plan URL --shard 0..9", "ten of the shards, here; URL is what plan printed"},
		},
		words: []string{"dataset", "store", "record"},
		options: slices.Concat([]*option{
			{name: "shards", arg: "N", set: intoInt(&c.shards, 1, shard.MaxShards), help: "how many shards of about equal bytes"},
			{name: "shard-bytes", arg: "SIZE", def: "256MB", set: intoSize(&c.shardBytes, 1), help: "bytes of the dataset in a shard, where each file counts 4 KiB more than it has; a longer file is a shard of its own"},
		}, what, []*option{{name: "json", set: intoBool(&c.asJSON), help: "print JSON"}}, c.reach, rarely([]*option{
			{name: "build-dir", arg: "DIR", path: true, def: "~/.cache/pipefs", set: intoString(&c.buildDir), help: "where the plan is until it is put: about 200 bytes for each file"},
		}...), seldom),
		run: func(ctx context.Context, args []string) error {
			c.dataset, c.store = args[0], args[1]
			if err := c.check(); err != nil {
				return err
			}
			return runPlan(ctx, env, c)
		},
	}
}

func runPlan(ctx context.Context, env *environ, c *planConfig) error {
	var err error
	if c.dataset, err = filledDataset(ctx, env, c.dataset, "planned"); err != nil {
		return err
	}
	if c.store, err = remote.Place(c.store); err != nil {
		return err
	}
	if !remote.Is(c.store) && mounts.Inside(c.store, c.dataset) {
		return exit.Errorf(exit.Usage, "the store %s lies inside the dataset, which pipefs never writes to; take a directory outside of it", c.store)
	}
	base, done, err := c.openBase(ctx, env)
	if err != nil {
		return err
	}
	defer done()
	m, err := c.making(ctx, env, base)
	if err != nil {
		return err
	}
	d, err := openDataset(ctx, env, c.remote, c.dataset, source.Options{NoFollow: c.noFollow, Log: quiet(env)})
	if err != nil {
		return exit.With(exit.System, err)
	}
	defer d.Close()
	r := codecs.New(m.Options.Limits, optionsOf(&m.Options))
	tree := shard.Dataset{Dataset: whatIsPacked(env, &c.packConfig, d, r)}
	m.Tree, m.Current, m.Verbatim = tree, tree.Current, tree.Verbatim
	m.Steps, m.Decoders = stepsOf(r, m.Options.Represent)
	w := &packing{env: env}
	bar := newProgress(env, "planning", -1)
	m.Warn, m.Progress = w.warn, func(n int64) { bar.reach(int(n)) }
	p, err := m.Make(ctx)
	bar.done()
	switch {
	case errors.Is(err, shard.ErrNothing):
		return c.tellNothing(env, w)
	case errors.Is(err, context.Canceled):
		return exit.Errorf(exit.Interrupted, "interrupted; nothing was planned")
	case errors.Is(err, syscall.ENOSPC):
		return exit.Errorf(exit.System, "planning: the disk of %s or that of %s is full; make room, or name another directory with --build-dir: %w", c.buildDir, c.store, err)
	case err != nil:
		return exit.With(exit.System, fmt.Errorf("planning %s: %w", c.dataset, err))
	}
	return c.tell(env, p, w)
}

// openBase opens the store, if there is one.
func (c *planConfig) openBase(ctx context.Context, env *environ) (*store.Store, func(), error) {
	files, done, err := mountd.OpenFiles(ctx, c.remote, c.store, remote.Options{Log: quiet(env)})
	if err != nil {
		return nil, nil, err
	}
	is, err := store.IsIn(files, c.store)
	if err == nil && !is {
		err = store.MayUse(files, c.store)
	}
	if err != nil || !is {
		return nil, done, exit.With(exit.Usage, err)
	}
	s, err := store.Open(c.store, store.Options{Logger: quiet(env), FS: files, IndexDir: mountd.IndexDir(c.remote, c.store)})
	if err != nil {
		done()
		return nil, nil, exit.With(exit.System, err)
	}
	return s, func() { _ = s.Close(); done() }, nil
}

// making says how to plan, with the options that the store has where none were given.
func (c *planConfig) making(ctx context.Context, env *environ, base *store.Store) (m *shard.Making, err error) {
	var has codecs.Options
	o := shard.Options{
		RecordImages: max(c.recordImages, 1), RecordBytes: 256 << 20, PackBytes: 256 << 20,
		Order: store.OrderPath, Originals: c.originals, Represent: c.represent, Limits: withDefaults(c.limits), NoFollow: c.noFollow,
	}
	if o.Originals == "" {
		o.Originals = "rebuild"
	}
	if base != nil {
		st := base.Stats()
		has = codecs.OptionsOf(st.Bytes)
		if c.recordImages == 0 {
			o.RecordImages = max(st.RecordImages, 1)
		}
		if st.Order != "" {
			o.Order, o.Seed = st.Order, st.Seed
		}
	}
	if c.order != "" {
		o.Order, o.Seed = store.Order(c.order), uint64(max(c.seed, 0))
	}
	how := c.codecs(has)
	o.Scans, o.L3Mode, o.L3Patch = how.Cuts.Levels(), how.L3.Mode.String(), how.L3.Patch
	if err := c.holdBuildDir(env); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(c.buildDir, 0o700); err != nil {
		return nil, exit.With(exit.System, err)
	}
	m = &shard.Making{Base: base, Dataset: c.dataset, Options: o, Shards: c.shards, ShardBytes: c.shardBytes, Temp: c.buildDir}
	m.Place, err = mountd.Connect(ctx, c.remote, c.store, quiet(env))
	return m, err
}

// withDefaults writes down limits that were not given: another version may have others.
func withDefaults(l transcode.Limits) transcode.Limits {
	fill := func(n *int64, def int64) {
		if *n == 0 {
			*n = def
		}
	}
	fill(&l.MaxFile, transcode.DefaultMaxFile)
	fill(&l.MaxPixels, transcode.DefaultMaxPixels)
	if l.MaxScans == 0 {
		l.MaxScans = jpeg.DefaultMaxScans
	}
	if l.MaxSegments == 0 {
		l.MaxSegments = jpeg.DefaultMaxSegments
	}
	return l
}

// tellNothing says that there is nothing to plan.
func (c *planConfig) tellNothing(env *environ, w *packing) error {
	if c.asJSON {
		return printJSON(env.stdout, planReport{})
	}
	fmt.Fprintf(env.stdout, "%s has all of %s already: there is nothing to pack, and no plan was made\n", c.store, c.dataset)
	c.tellUnread(env, w)
	return nil
}

func (c *planConfig) tellUnread(env *environ, w *packing) {
	if w.warns > 0 {
		fmt.Fprintf(env.stdout, "%s could not be listed; what the store has of them stays\n", plural(w.warns, "file or directory", "files and directories"))
	}
}

// planReport is what --json prints.
type planReport struct {
	Plan       string `json:"plan"` // URL; "" where there is nothing to pack
	Shards     int    `json:"shards"`
	Files      int64  `json:"files"`
	Dirs       int64  `json:"dirs"`
	Tombstones int64  `json:"tombstones"`
	Bytes      int64  `json:"bytes"`
	Unlisted   int    `json:"unlisted"`
	Memory     int64  `json:"worker_memory_bytes"`
	Disk       int64  `json:"worker_disk_bytes"`
}

func (c *planConfig) tell(env *environ, p *shard.Plan, w *packing) error {
	url := shard.URL(c.store, p.ID)
	memory, disk := p.Needs()
	if c.asJSON {
		return printJSON(env.stdout, planReport{url, p.Shards, p.Files, p.Dirs, p.Tombstones, p.Bytes, w.warns, memory, disk})
	}
	out := env.stdout
	fmt.Fprintf(out, "planned %s: %s and %s to pack, %s\n", plural(p.Shards, "shard", "shards"),
		plural(p.Files, "file", "files"), plural(p.Dirs, "directory", "directories"), formatSize(p.Bytes))
	if p.Tombstones > 0 {
		fmt.Fprintf(out, "%s the store has, and the dataset no longer\n", plural(p.Tombstones, "entry", "entries"))
	}
	c.tellUnread(env, w)
	fmt.Fprintf(out, "a worker takes at most %s of memory, but for pictures of very many pixels, and %s in its --build-dir\n", formatSize(memory), formatSize(disk))
	fmt.Fprintf(out, "the plan is %s\n", url)
	options := ""
	for _, a := range again(c.reach) {
		options += " " + shellWord(a)
	}
	which := "I"
	if p.Shards == 1 {
		which = "0"
	}
	fmt.Fprintf(out, "pack shards 0 to %d on any machines: pipefs pack%s --plan %s --shard %s\n", p.Shards-1, options, shellWord(url), which)
	fmt.Fprintf(out, "and then, once: pipefs commit%s %s\n", options, shellWord(url))
	return nil
}

// optionsOf is how the files of a plan are made.
func optionsOf(o *shard.Options) (how codecs.Options) {
	how.Cuts = jpeg.CutsAt(o.Scans...)
	how.L3.Patch = o.L3Patch
	how.L3.Mode, _ = l3.ParseMode(o.L3Mode) // of another version: what it makes has another id
	return how
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
